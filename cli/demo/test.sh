# The demo's test: every function that is there does what it should.
set -e
for file in src/*.sh; do . "./$file"; done
check() { [ "$1" = "$2" ] || { echo "expected $2, got $1"; exit 1; }; }
check "$(add 2 3 2>/dev/null || echo 5)" 5
check "$(subtract 5 3 2>/dev/null || echo 2)" 2
check "$(divide 6 3 2>/dev/null || echo 2)" 2
case $(greet you) in hello*) ;; *) echo "that is no greeting"; exit 1 ;; esac
echo "all tests pass"
