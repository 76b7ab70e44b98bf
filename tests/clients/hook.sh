#!/bin/sh
# A hook whose answer depends on the words in what it is told. The tests see what a client makes of each.
payload=$(cat)

answer() {
    printf '{"hookSpecificOutput":{"hookEventName":"PreToolUse",%s}}\n' "$1"
    exit 0
}

case "$payload" in
*'"hook_event_name":"Stop"'*'"stop_hook_active":true'* | *'"stop_hook_active":true'*'"hook_event_name":"Stop"'*) exit 0 ;;
*'"hook_event_name":"Stop"'*) printf '{"decision":"block","reason":"because of the gate"}\n' ;;
*'"hook_event_name":"UserPromptSubmit"'*)
    printf '{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit","additionalContext":"told with the prompt"}}\n'
    ;;
*denied-by-answer*) answer '"permissionDecision":"deny","permissionDecisionReason":"because of the answer"' ;;
*denied-by-code*)
    echo "because of the code" >&2
    exit 2
    ;;
*crashes*) exit 1 ;;
*rewritten*) answer '"permissionDecision":"allow","updatedInput":{"command":"echo done-another-way > result.txt"}' ;;
*with-context*) answer '"additionalContext":"told with the call"' ;;
esac
exit 0
