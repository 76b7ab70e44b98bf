# An agent of the demo. A real one is a model behind claude or codex; this one follows a script, and everything it does
# is real: it gets its prompt on stdin, writes files, runs tests, offers its work, and is judged like anybody else. What its own
# tests say is for its own benefit: mala runs them again, on the commit that the branch would become.

prompt=$(cat)
issue=$(printf '%s\n' "$prompt" | sed -n '1s/^You work on the issue \([^ ]*\) .*/\1/p')
was_sent_back() { printf '%s\n' "$prompt" | grep -q 'is not accepted yet'; }

# The command that gets saved work back, out of the notes of an earlier attempt.
way_back() { printf '%s\n' "$prompt" | sed -n 's/.*To get it back: //p' | tail -n 1; }

case $issue in
demo-1)
    echo "I write the greeting, and take my time"
    echo 'greet() { echo "hello, $1"; }' > src/greet.sh
    sleep 2
    mala test; mala commit -m "demo-1: greet by name"
    ;;
demo-2)
    echo "I build on what demo-1 has made"
    echo 'greet_all() { for name in "$@"; do greet "$name"; done; }' >> src/greet.sh
    mala test; mala commit -m "demo-2: greet several"
    ;;
demo-3)
    echo "I tidy up a neighbour's file on the way"
    sleep 0.5
    if sed -i 's/hello/HELLO/' src/greet.sh; then echo "it let me"; else echo "I was not allowed to, so I do my own work"; fi
    echo 'add() { echo $(($1 + $2)); }' > src/add.sh
    mala test; mala commit -m "demo-3: add"
    ;;
demo-4)
    if was_sent_back; then
        echo "I am told what fails, and mend it"
        echo 'subtract() { echo $(($1 - $2)); }' > src/subtract.sh
        mala test; mala commit -m "demo-4: subtract the right way round"
    else
        echo 'subtract() { echo $(($2 - $1)); }' > src/subtract.sh
        mala commit -m "demo-4: subtract"
        echo "Done! All tests pass." # It never ran them. mala does.
    fi
    ;;
demo-5)
    way_back=$(way_back)
    if [ -z "$way_back" ]; then
        echo '# divide: what about zero?' > src/divide.sh
        echo "I lost my way"
        exit 1
    fi
    echo "The note of the first attempt says where its work is"
    sh -c "$way_back"
    printf '%s\n' 'divide() { [ "$2" -ne 0 ] && echo $(($1 / $2)); }' > src/divide.sh
    mala test; mala commit -m "demo-5: divide"
    ;;
esac
