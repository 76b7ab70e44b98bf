//! What is known of programs: which options leave them harmless, and what they do then.
//!
//! This is the one place that says so. A command is taken for harmless only if its program stands here and each of its
//! options is listed; whatever is not listed counts as unknown, so a new option of a program is unknown until somebody has
//! read its manual. An option that writes or starts something is listed only where its [`Role`] looks at it.
//!
//! An entry's options are words: `-abc` are three flags, `-n:` takes a value, `-i?` may have one attached, `-#` is a
//! number; `--all` is a flag, `--lines=` takes a value, `--color?` may have one attached. `*` stands for every other
//! option: it is used where no version of the program has one that writes or starts anything. Behind `~`, each letter
//! stands alone. `!` marks a program that is never harmless, because it runs code of the project. A name like `git/status` is a command of a program.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::options::Syntax;

#[derive(Debug, Clone, Copy)]
pub(super) struct Program {
    names: &'static str,
    pub(super) role: Role,
    pub(super) syntax: Syntax,
}

/// What a program does with its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It reads them.
    Reads,
    /// It takes none.
    TakesNone,
    /// It deletes them.
    Removes,
    /// It writes each of them.
    Writes,
    /// It writes the second of them.
    WritesSecond,
    /// It reads them, and writes the value of this option.
    WritesValue(&'static [&'static str]),
    /// It changes their mode or owner.
    ChangesMode,
    /// It writes the last of them, from the others.
    Transfers,
    /// It rewrites them unless one of these options is given.
    RewritesUnless(&'static [&'static str]),
    /// It rewrites them if one of these options is given.
    RewritesIf(&'static [&'static str]),
    /// It starts the program that they name, behind so many of its own.
    Starts { skip: usize },
    /// Its first operand is a command of its own.
    HasCommands,
    /// A function of the walker's knows it.
    Special(Special),
    /// Known, but not what it does.
    Opaque,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    ApplyPatch,
    Archive,
    Assigns,
    Awk,
    ChangesFolder,
    Compresses,
    Curl,
    Dd,
    Declares,
    Editor,
    Env,
    Eval,
    Fd,
    Find,
    Git,
    Github,
    Interpreter,
    MakesFolder,
    Mala,
    Patch,
    Perl,
    Sed,
    Set,
    Shell,
    Shift,
    Shopt,
    Source,
    Tests,
    Trap,
    Xargs,
}

/// Nothing is known, and every option is taken for a flag.
pub(super) const OPEN: Syntax = Syntax { options: "* -m:F:C:s:", in_order: false };

const fn row(names: &'static str, role: Role, options: &'static str) -> Program {
    Program { names, role, syntax: Syntax { options, in_order: false } }
}

/// A program whose options end at its first operand.
const fn in_order(names: &'static str, role: Role, options: &'static str) -> Program {
    Program { names, role, syntax: Syntax { options, in_order: true } }
}

use Role::{
    ChangesMode, HasCommands, Opaque, Reads, Removes, RewritesIf, RewritesUnless, Starts, TakesNone,
    Transfers, Writes, WritesSecond, WritesValue,
};

const PROGRAMS: &[Program] = &[
    // Whatever their options, these read. Coreutils and what every system has beside them.
    row(
        ": arch basename cat cksum clear cmp comm cut date df diff dirname du echo egrep expand expr factor false fgrep \
         fmt fold free getent getconf groups head hexdump id join kill killall locale logname look ls lsblk lscpu \
         md5sum nl nproc numfmt od paste pgrep ping pkill pr printenv ps pstree pwd pwdx readlink realpath rev seq \
         sha1sum sha224sum sha256sum sha384sum sha512sum shasum sleep ss stat stty sum sync tac tail tr true tsort tty \
         type uname unexpand uptime users vmstat w wc whereis which who whoami yes host dig cal column jq shellcheck \
         b2sum eza exa hostname",
        Reads,
        "*",
    ),
    row("grep", Reads, "* -e:f:m:A:B:C: --regexp= --file="),
    // The shell's own.
    row("bg break caller continue exit fg help logout return suspend times ulimit umask unalias", Reads, "*"),
    row("wait", Reads, "-nf"),
    row("jobs", Reads, "-lprsn"),
    row("disown", Reads, "-arh"),
    row("hash", TakesNone, "-rl"),
    row("history", Reads, ""),
    row("dirs", Reads, "-clpv"),
    in_order("cd chdir pushd popd", Role::Special(Special::ChangesFolder), "-LPe@n"),
    in_order("export declare local readonly typeset", Role::Special(Special::Declares), "-xrgp"),
    in_order("read", Role::Special(Special::Assigns), "-rsep:t:n:N:d:a:u:i:"),
    in_order("mapfile readarray", Role::Special(Special::Assigns), "-td:n:O:s:u:"),
    in_order("getopts", Role::Special(Special::Assigns), ""),
    in_order("unset", Role::Special(Special::Assigns), "-vf"),
    in_order("printf", Role::Special(Special::Assigns), "-v:"),
    in_order("eval", Role::Special(Special::Eval), ""),
    in_order("trap", Role::Special(Special::Trap), "-lp"),
    in_order("set", Role::Special(Special::Set), "*"),
    in_order("shift", Role::Special(Special::Shift), ""),
    in_order("shopt", Role::Special(Special::Shopt), "*"),
    row("source .", Role::Special(Special::Source), "*"),
    row("[ test", Role::Special(Special::Tests), "*"),
    // Programs with an option that writes or starts something, which is left out here.
    row("ack ag", Reads, "-ilnwvcQFhHs -A:B:C:m:g: --ignore= --nocolor --color --nogroup --hidden"),
    row("base32 base64", Reads, "-dDiw: --decode --wrap= --ignore-garbage"),
    row("bat batcat", Reads, "-npAl:r:H: --plain --number --show-all --style= --color= --paging= --language= --line-range=
        --highlight-line= --decorations= --wrap= --theme="),
    row("bc", Reads, "-lqswi --mathlib --quiet"),
    row("file", Reads, "-biLhkrsN --brief --mime --mime-type --mime-encoding --dereference"),
    row("less more", Reads, "-RSNFXEMirn"),
    row("lsof", Reads, "-i?np:Ptu:c:a"),
    row("man", Reads, "-kf"),
    row("nm", Reads, "-CDgunSpr --defined-only --dynamic --demangle? --undefined-only --extern-only"),
    row("objdump", Reads, "-dDxthSCTpM:j:rs --disassemble? --demangle? --headers --syms"),
    row("readelf", Reads, "-ahlSsdnWrV --headers --syms --dynamic --wide"),
    row("rg", Reads, "-inNlLcwvxFSsoUuH.0qPpIae:f:g:t:T:A:B:C:m:M:j:d:E: -# --files --hidden --no-ignore --no-ignore-vcs
        --files-with-matches --files-without-match --glob= --iglob= --type= --type-not= --regexp= --file= --count
        --count-matches --line-number --no-line-number --ignore-case --smart-case --case-sensitive --fixed-strings
        --word-regexp --line-regexp --invert-match --only-matching --multiline --multiline-dotall --context=
        --after-context= --before-context= --max-count= --max-depth= --max-columns= --max-filesize= --color= --colors=
        --heading --no-heading --column --json --sort= --sortr= --pcre2 --stats --trim --vimgrep --replace= -r:
        --no-messages --follow --text --type-list --no-filename --with-filename --null --quiet --threads= --debug
        --no-config --passthru --encoding="),
    row("size strings", Reads, "-an:t:e:ABdox -# --all --bytes= --radix= --encoding="),
    row("tokei", Reads, "-fs:e:t:o: --files --sort= --exclude= --type= --output="),
    row("top", TakesNone, "-bn:o:p:d:w?"),
    row("tree", Reads, "-adfilxpsuhgDFqNQJXCnrtI:P:L: --dirsfirst --noreport --gitignore --prune --filelimit= --du --si"),
    row("whatis", Reads, ""),
    row("zcat zgrep", Reads, ""),
    row("difft", Reads, "--color= --display= --context= --width="),
    // Writers.
    row("rm unlink rmdir", Removes, "-rRfvdIip --recursive --force --verbose --dir --parents --interactive?
        --ignore-fail-on-non-empty --one-file-system --preserve-root?"),
    row("shred", Removes, "-fn:s:uvxz --force --iterations= --size= --verbose --zero --remove?"),
    row("touch", Writes, "-acfhmd:r:t: --date= --reference= --no-create --no-dereference --time="),
    row("truncate", Writes, "-cos:r: --size= --reference= --no-create --io-blocks"),
    row("tee sponge", Writes, "-aip --append --ignore-interrupts"),
    row("mkfifo", Writes, "-m: --mode="),
    row("mktemp", Writes, "-dqut --directory --quiet --dry-run --suffix="),
    row("mkdir", Role::Special(Special::MakesFolder), "-pvm:Z --parents --verbose --mode="),
    row("chmod chown chgrp", ChangesMode, "-RvfchHLPrwxX --recursive --verbose --silent --quiet --changes --reference=
        --from= --no-dereference --dereference --preserve-root --no-preserve-root"),
    row("mv", Transfers, "-fnvuit:TZ --force --no-clobber --verbose --update? --interactive --target-directory=
        --no-target-directory --strip-trailing-slashes"),
    row("cp", Transfers, "-fnvuirRadpPLHxlst:T --force --no-clobber --verbose --update? --interactive --recursive --archive
        --preserve? --no-preserve= --dereference --no-dereference --link --symbolic-link --target-directory=
        --no-target-directory --reflink? --sparse= --one-file-system --attributes-only --remove-destination
        --strip-trailing-slashes"),
    row("ln", Transfers, "-sfnvirLPt:T --symbolic --force --no-dereference --verbose --interactive --relative --logical
        --physical --target-directory= --no-target-directory"),
    row("install", Transfers, "-dvDpsCt:Tm:o:g: --directory --verbose --preserve-timestamps --compare
        --target-directory= --no-target-directory --mode= --owner= --group="),
    row("rsync", Transfers, "-avrznqhuctpgolPxWSHAXDi --archive --verbose --recursive --compress --dry-run --quiet --update
        --checksum --times --perms --links --delete --delete-after --delete-before --delete-during --exclude=
        --include= --exclude-from= --include-from= --stats --progress --partial --info= --human-readable
        --itemize-changes --whole-file --existing --ignore-existing --size-only --remove-source-files --max-size=
        --min-size= --bwlimit= --chmod= --filter= -f:"),
    row("scp", Transfers, "-rpqCvBP:i:l:c:346"),
    row("sed gsed", Role::Special(Special::Sed), "-nErsuzi?e:f:l: --quiet --silent --regexp-extended --null-data --separate --unbuffered
        --posix --sandbox --in-place? --expression= --file= --line-length="),
    row("perl", Role::Special(Special::Perl), "-pnwe:E:i?0?l?a"),
    row("awk gawk mawk nawk", Role::Special(Special::Awk), "-F:v:f:i: --field-separator= --assign= --file= --include= --posix --traditional
        --re-interval --csv"),
    row("dd", Role::Special(Special::Dd), ""),
    row("sort", WritesValue(&["o", "output"]), "-bdfghiMnRrVcCmsuzk:t:S:T:o: --output= --key= --field-separator= --reverse
        --unique --numeric-sort --human-numeric-sort --version-sort --general-numeric-sort --ignore-case
        --ignore-leading-blanks --dictionary-order --month-sort --random-sort --stable --zero-terminated --check?
        --merge --parallel= --buffer-size= --batch-size= --debug"),
    row("shuf", WritesValue(&["o", "output"]), "-eizrn:o: --echo --input-range= --head-count= --output= --repeat
        --zero-terminated"),
    row("iconv", WritesValue(&["o", "output"]), "-f:t:o:cls --from-code= --to-code= --output= --list --silent"),
    row("uniq", WritesSecond, "-cdDuizf:s:w: --count --repeated --unique --ignore-case --skip-fields= --skip-chars=
        --check-chars= --zero-terminated --all-repeated? --group?"),
    row("xxd", WritesSecond, "~ -prbeuil:s:c:g:o:"),
    row("curl", Role::Special(Special::Curl), "-sSfLkIivgGN#46aJOo:d:H:X:u:A:e:b:c:F:m:w:D:r:x:y:Y:z: --silent --show-error --fail
        --fail-with-body --location --insecure --head --include --verbose --get --no-buffer --compressed --output=
        --data= --data-raw= --data-binary= --data-urlencode= --json= --header= --request= --user= --user-agent=
        --referer= --cookie= --cookie-jar= --form= --max-time= --connect-timeout= --retry= --retry-delay= --write-out=
        --dump-header= --range= --proxy= --url= --cacert= --http1.1 --http2 --ipv4 --ipv6 --progress-bar --no-progress-meter
        --retry-connrefused --retry-all-errors --max-redirs= --unix-socket= --resolve= --oauth2-bearer="),
    row("patch", Role::Special(Special::Patch), "! -p:i:d:o:r:B:D:F:sNRftulE --strip= --input= --directory= --output= --dry-run --forward --reverse
        --silent --force --batch"),
    row("apply_patch applypatch", Role::Special(Special::ApplyPatch), ""),
    row("ed ex vi vim nvim emacs nano red", Role::Special(Special::Editor), "! * -c:S:s:u: --cmd="),
    row("tar bsdtar", Role::Special(Special::Archive), "-czjJtfvhpC: --create --list --gzip --bzip2 --xz --zstd --verbose --file= --directory= --exclude=
        --dereference --no-recursion --wildcards --totals"),
    row("gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd", Role::Special(Special::Compresses), "-cdtlkfvqn -# --stdout --decompress --test
        --list --keep --force --verbose --quiet --no-name --to-stdout --best --fast"),
    // What rewrites files in place.
    row("black", RewritesUnless(&["check", "diff", "version"]), "-l:t:qvCS --check --diff --color --quiet --verbose
        --line-length= --target-version= --skip-string-normalization --fast --safe --include= --exclude="),
    row("isort", RewritesUnless(&["check", "check-only", "c", "diff"]), "-cqvl: --check --check-only --diff --quiet
        --profile= --line-length="),
    row("ruff/format", RewritesUnless(&["check", "diff"]), "-qvs --check --diff --quiet --line-length= --exclude=
        --target-version= --preview --no-cache"),
    row("ruff/check", RewritesIf(&["fix", "fix-only", "unsafe-fixes", "add-noqa"]), "-qvs --fix --fix-only
        --unsafe-fixes --add-noqa --select= --ignore= --extend-select= --quiet --diff --show-fixes --statistics
        --output-format= --no-cache --preview --exclude= --target-version= --line-length="),
    row("autopep8 yapf", RewritesIf(&["i", "in-place"]), "-idrav --in-place --diff --recursive --aggressive
        --max-line-length="),
    row("rustfmt", RewritesUnless(&["check", "version"]), "-lvq --check --edition= --quiet --verbose"),
    row("gofmt goimports", RewritesIf(&["w"]), "-lwdse"),
    row("clang-format", RewritesIf(&["i"]), "-in --dry-run --style= --Werror"),
    row("shfmt", RewritesIf(&["w", "write"]), "-lwdsi:bckr --list --write --diff --simplify --indent="),
    row("taplo/fmt", RewritesUnless(&["check", "diff"]), "--check --diff"),
    row("terraform/fmt", RewritesUnless(&["check", "diff"]), "-"),
    row("yq", RewritesIf(&["i", "inplace"]), "-irPCMenNjo:p:I: --inplace --output-format= --input-format= --prettyPrint
        --no-doc --exit-status --null-input --raw-output"),
    row("biome/format biome/check biome/lint", RewritesIf(&["write", "apply"]), "--write --apply"),
    // They read settings of the project that are programs.
    row("prettier", RewritesIf(&["write", "w"]), "! *"),
    row("eslint stylelint", RewritesIf(&["fix"]), "! *"),
    row("cargo/fmt", RewritesUnless(&["check"]), "! *"),
    row("go/fmt", RewritesUnless(&["n"]), "! *"),
    row("xmllint pylint flake8 mypy pyright", Opaque, ""),
    row("ruff taplo terraform biome cargo go", HasCommands, ""),
    // What starts another program.
    in_order("sudo doas", Starts { skip: 0 }, "-nEHSu:g: --user= --group= --non-interactive --preserve-env"),
    in_order("nice", Starts { skip: 0 }, "-n: -# --adjustment="),
    in_order("ionice", Starts { skip: 0 }, "-c:n:t --class= --classdata= --ignore"),
    in_order("nohup setsid chronic unbuffer caffeinate builtin", Starts { skip: 0 }, ""),
    in_order("exec", Starts { skip: 0 }, "-cla:"),
    in_order("command", Starts { skip: 0 }, "-vV"),
    in_order("stdbuf", Starts { skip: 0 }, "-i:o:e: --input= --output= --error="),
    in_order("time", Starts { skip: 0 }, "-pvf: --portability --verbose --format="),
    in_order("timeout gtimeout", Starts { skip: 1 }, "-k:s:v --kill-after= --signal= --foreground --preserve-status --verbose"),
    in_order("chrt taskset", Starts { skip: 1 }, "-ac"),
    in_order("flock", Starts { skip: 1 }, "! -nc:xsuew:E: --nonblock --exclusive --shared --timeout= --wait="),
    in_order("busybox", Starts { skip: 0 }, "!"),
    in_order("uvx npx bunx pnpx", Starts { skip: 0 }, "! -yp: --yes --no-install --package= --from= --with= --python="),
    in_order(
        "uv/run poetry/run pipenv/run pdm/run hatch/run rye/run pnpm/exec pnpm/dlx yarn/exec yarn/dlx npm/exec \
         bundle/exec mise/exec mise/x",
        Starts { skip: 0 },
        "! -p: --with= --python= --group= --extra= --package= --project= --directory= --env-file= --with-requirements=
         --only-group=",
    ),
    row("uv poetry pipenv pdm hatch rye pnpm yarn npm bundle mise", HasCommands, ""),
    in_order("env", Role::Special(Special::Env), "-iu:0 --ignore-environment --unset= --null"),
    in_order("xargs", Role::Special(Special::Xargs), "-0rtxI:i?n:P:L:l?d:s:a: --null --no-run-if-empty --verbose --max-args= --max-procs=
        --delimiter= --arg-file= --replace? --max-lines? --max-chars= --exit"),
    row("find", Role::Special(Special::Find), ""),
    row("fd fdfind", Role::Special(Special::Fd), "-HIuagFisLp01lqe:t:d:E:S:j:c: --hidden --no-ignore --unrestricted --absolute-path --glob
        --fixed-strings --ignore-case --case-sensitive --follow --full-path --print0 --extension= --type= --max-depth=
        --min-depth= --exclude= --size= --color= --max-results= --changed-within= --changed-before="),
    in_order("sh bash zsh dash ksh ash mksh rbash", Role::Special(Special::Shell), "-celxuvfno: --norc --noprofile --login --posix"),
    row("mala", Role::Special(Special::Mala), "*"),
    // Code that is not read here.
    row(
        "python node nodejs deno bun ruby php lua luajit Rscript julia osascript tclsh expect ts-node tsx pypy ipython \
         scala groovy elixir pwsh sqlite3 psql",
        Role::Special(Special::Interpreter),
        "*",
    ),
    row("rustc rustup make cmake gcc g++ clang javac java docker kubectl pip pip3 ssh", Opaque, ""),
    row("gh", Role::Special(Special::Github), ""),
    row(
        "gh/pr/list gh/pr/view gh/pr/status gh/pr/diff gh/pr/checks gh/issue/list gh/issue/view gh/issue/status \
         gh/run/list gh/run/view gh/repo/view gh/repo/list gh/release/list gh/release/view gh/auth/status gh/search/code \
         gh/search/issues gh/search/prs gh/label/list gh/workflow/list gh/workflow/view",
        Reads,
        "-R:L:s:q:a:l:S:t: --json= --jq= --repo= --limit= --state= --author= --label= --search= --assignee= --comments
         --log --log-failed --patch --name-only --branch= --workflow=",
    ),
    row("git", Role::Special(Special::Git), ""),
    row("git/status", Reads, "-sbvu?z --short --branch --long --verbose --show-stash --porcelain? --untracked-files?
        --ignored? --ignore-submodules? --column? --no-column --ahead-behind --no-ahead-behind --renames --no-renames
        --find-renames?"),
    row(
        "git/log git/diff git/show git/whatchanged git/diff-tree git/diff-index git/diff-files git/range-diff git/reflog \
         git/rev-list git/cherry git/shortlog git/stash/list git/stash/show",
        Reads,
        "-# -pusbwqzitmcaRgreEFPn:S:G:L:U:M?C?B?W --patch --no-patch --stat? --numstat --shortstat --name-only --name-status
         --summary --oneline --graph --decorate? --no-decorate --all --branches? --tags? --remotes? --since= --until=
         --after= --before= --author= --committer= --grep= --invert-grep --max-count= --skip= --reverse --merges
         --no-merges --first-parent --follow --pretty? --format= --abbrev-commit --no-abbrev-commit --abbrev? --date=
         --unified= --cached --staged --color? --no-color --word-diff? --word-diff-regex= --color-words? --no-ext-diff
         --no-textconv --diff-filter= --find-renames? --find-copies? --find-copies-harder --no-renames
         --ignore-all-space --ignore-space-change --ignore-space-at-eol --ignore-blank-lines --ignore-cr-at-eol
         --exit-code --quiet --check --raw --relative? --no-index --minimal --patience --histogram --diff-algorithm=
         --function-context --text --submodule? --left-right --left-only --right-only --cherry-pick --cherry-mark
         --no-prefix --src-prefix= --dst-prefix= --dirstat? --compact-summary --full-index --binary --inter-hunk-context=
         --pickaxe-regex --pickaxe-all --no-walk? --topo-order --date-order --author-date-order --ancestry-path?
         --simplify-by-decoration --full-history --source --walk-reflogs --merge-base --boundary --count
         --color-moved? --root --cc --notes? --no-notes --objects --parents --children --regexp-ignore-case
         --extended-regexp --fixed-strings --perl-regexp --all-match --committer-date-is-author-date --summary
         --numbered --email --no-commit-id --full-diff --show-pulls --no-pager --ignore-submodules? --not --patch-with-stat",
    ),
    row("git/blame git/annotate", Reads, "-eslwtfnL:M?C? --porcelain --line-porcelain --date= --since= --show-email --show-name
        --ignore-rev= --ignore-revs-file= --abbrev= --reverse --root --incremental --color-lines --color-by-age"),
    row("git/grep", Reads, "-nivwlLchHEFPGpWqzoaIrme:f:A:B:C: -# --line-number --ignore-case --files-with-matches
        --files-without-match --name-only --count --word-regexp --invert-match --extended-regexp --fixed-strings
        --perl-regexp --basic-regexp --untracked --cached --no-index --no-exclude-standard --exclude-standard --and --or
        --not --all-match --max-depth= --threads= --color? --no-color --heading --break --full-name --column
        --recurse-submodules --text --show-function --function-context --context= --max-count="),
    row("git/ls-files git/ls-tree", Reads, "-cdmoiskutvzrlnx:X: --cached --deleted --modified --others --ignored --stage --unmerged
        --killed --exclude-standard --exclude= --error-unmatch --full-name --name-only --name-status --long --abbrev?
        --eol --deduplicate --recurse-submodules --directory --full-tree --format= --no-empty-directory --object-only"),
    row("git/rev-parse", Reads, "*"),
    row(
        "git/describe git/cat-file git/name-rev git/merge-base git/for-each-ref git/show-ref git/show-branch \
         git/count-objects git/check-ignore git/check-attr git/check-ref-format git/var git/version git/stripspace \
         git/write-tree git/verify-pack git/merge-tree",
        Reads,
        "-ptsevHdznalqc --tags --all --always --long --dirty? --abbrev? --match= --exclude= --contains? --exact-match
         --first-parent --candidates= --batch? --batch-check? --batch-all-objects --is-ancestor --fork-point --octopus
         --independent --format= --sort= --count= --points-at= --merged? --no-merged? --no-contains= --heads --branches
         --verify --hash? --dereference --verbose --human-readable --stdin --no-index --non-matching --branch
         --name-only --refs= --undefined --write-tree --quiet",
    ),
    row("git/hash-object", Reads, "-wt: --stdin --stdin-paths --path= --no-filters"),
    row("git/fetch git/ls-remote", Reads, "-aptvqfknj: -46 --all --prune --prune-tags --tags --no-tags --verbose --quiet --force --depth=
        --deepen= --unshallow --dry-run --jobs= --progress --heads --refs --symref --exit-code --get-url --sort=
        --atomic --set-upstream --multiple --shallow-since= --filter= --no-recurse-submodules"),
    row("git/branch", Reads, "-avrlqfdDmMcCtu: --all --remotes --list --verbose --show-current --contains? --no-contains?
        --merged? --no-merged? --sort= --format= --points-at= --color? --no-color --delete --force --move --copy
        --track? --no-track --set-upstream-to= --unset-upstream --column? --abbrev? --ignore-case"),
    row("git/tag", Reads, "-lndfm:aF: -# --list --delete --force --message= --file= --annotate --sort= --format= --contains?
        --no-contains? --merged? --no-merged? --points-at= --column? --color?"),
    row("git/remote", Reads, "-vnt:m:f --verbose --push --all --tags --no-tags"),
    row("git/worktree/list git/notes/list git/notes/show git/submodule/status git/bisect/log git/bundle/list-heads", Reads,
        "-vz --porcelain --verbose --recursive --cached"),
    row("git/add git/stage", Reads, "-vnfAuN --all --update --intent-to-add --force --verbose --dry-run --no-all --renormalize --refresh
        --ignore-errors --ignore-missing --chmod= --sparse"),
    row("git/rm", Removes, "-rfnq --cached --force --dry-run --quiet --ignore-unmatch"),
    row("git/mv", Transfers, "-fknv --force --dry-run --verbose"),
    row("git/restore", Role::Special(Special::Git), "-s:SWq --source= --staged --worktree --quiet --ours --theirs --no-overlay --overlay"),
    row("git/archive", WritesValue(&["o", "output"]), "-lvo: -# --output= --format= --prefix= --list --verbose"),
    row("git/format-patch", WritesValue(&[]), "-# -kn --stdout --numbered --no-numbered --keep-subject --cover-letter"),
    row("git/clone", Transfers, "-qvnlsb:o: --quiet --verbose --no-checkout --bare --mirror --branch= --origin= --depth=
        --single-branch --no-single-branch --no-tags --local --no-local --shared --progress --filter="),
    // Where they are let through, the hooks of the repository, an editor or a filter may do anything.
    row("git/config", Reads, "-lz --get --get-all --get-regexp --list --get-urlmatch --global --system --local --worktree --show-origin
        --show-scope --name-only --type= --bool --int --path --null --default= --all"),
    row("git/gc git/maintenance git/fsck git/prune git/pack-refs git/repack", Reads, "-qadlf --quiet --prune? --auto --aggressive
        --full --all"),
];

static BY_NAME: LazyLock<HashMap<&str, &Program>> = LazyLock::new(|| {
    let names =
        PROGRAMS.iter().flat_map(|program| program.names.split_whitespace().map(move |name| (name, program)));
    names.collect()
});

/// What is known of the program `name`, or of one of its commands, as in `git/status`. A version behind an interpreter's
/// name does not matter: `python3.12`.
pub(super) fn find(name: &str) -> Option<&'static Program> {
    BY_NAME.get(name).copied().or_else(|| {
        let plain = name.trim_end_matches(|char: char| char.is_ascii_digit() || char == '.');
        BY_NAME.get(plain).copied().filter(|program| program.role == Role::Special(Special::Interpreter))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_in_the_table_once() {
        let names = PROGRAMS.iter().flat_map(|program| program.names.split_whitespace());
        assert_eq!(names.count(), BY_NAME.len());
    }
}
