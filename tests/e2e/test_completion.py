# SPDX-License-Identifier: MIT
"""Completion of command lines, in the shells themselves: a terminal, a line, the Tab key, and what the line is then."""

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
import threading
import time

import pytest

from harness import LIMIT_S, TREE, program_environment

SHOWN_S = 30  # until the terminal has what the shell has printed
SHELLS = ("bash", "zsh", "fish")
CLEAR, TAB, SHOW = "\x15", "\t", "\x0f"  # Ctrl-U; Ctrl-O puts the line into a file, by the settings below

# Completion comes from where `make install` has put it, or, in the tests of `completion`, from the command itself.
SETTINGS = {
    "bash": (".bashrc", """
PS1='$ '
set +o history
bind 'set bell-style none'
bind 'set enable-bracketed-paste off'
show() { printf '%s' "$READLINE_LINE" >"$HOME/line.new"; mv "$HOME/line.new" "$HOME/line"; }
bind -x '"\\C-o": show'
""", ". /usr/share/bash-completion/bash_completion", "source <(vramtrace completion bash)"),
    "zsh": (".zshrc", """
PS1='$ '
unsetopt zle_bracketed_paste beep
show() { print -rn -- "$BUFFER" >~/line.new; mv ~/line.new ~/line }
zle -N show
bindkey -e
bindkey '^O' show
bindkey '^U' kill-whole-line
zstyle ':completion:*' menu no
setopt no_auto_menu no_list_ambiguous
LISTMAX=0
""", "fpath=($PREFIX/share/zsh/site-functions $fpath); autoload -U compinit; compinit -u -D",
            "autoload -U compinit; compinit -u -D; source <(vramtrace completion zsh)"),
    "fish": (".config/fish/config.fish", """
function fish_prompt; echo '$ '; end
function fish_greeting; end
set -g fish_autosuggestion_enabled 0
bind \\co 'commandline >~/line.new; mv ~/line.new ~/line'
bind \\cu 'commandline ""'
""", "", "vramtrace completion fish | source"),
}


@pytest.fixture(scope="module")
def prefix(vramtrace, tmp_path_factory):
    """Where `make install` has put everything."""
    folder = tmp_path_factory.mktemp("prefix")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "-C", TREE, f"O={vramtrace.program.parent}", f"PREFIX={folder}", "install"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Terminal:
    """An interactive shell with a home of its own, in which a recording, a script and a program lie."""

    def __init__(self, shell, prefix, home, installed):
        file, settings, from_prefix, from_command = SETTINGS[shell]
        self.shell, self.home = shell, home
        self.is_bash_alone = shell == "bash" and not installed
        path = home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{settings}{from_prefix if installed else from_command}\n")
        for name in ("job one.vtr", "train.vtr"):
            (home / name).mkdir()
        (home / "limits.toml").touch()
        environment = program_environment({
            "HOME": str(home), "TERM": "xterm", "PREFIX": str(prefix), "INPUTRC": "/dev/null", "ZDOTDIR": str(home),
            "PATH": f"{prefix}/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_DATA_DIRS": f"{prefix}/share:/usr/share" if installed else "/usr/share",
        })
        command = ["bash", "--rcfile", path, "-i"] if shell == "bash" else [shell, "-i"]
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=slave, stdout=slave, stderr=slave, cwd=home, env=environment,
            preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),
        )
        os.close(slave)
        self.screen = b""
        threading.Thread(target=self.read, daemon=True).start()
        self.line("")  # it is ready

    def read(self):
        try:
            while chunk := os.read(self.master, 4096):
                self.screen += chunk
        except OSError:
            pass  # the shell has ended

    def line(self, keys):
        """The command line after these keys on an empty one."""
        shown = self.home / "line"
        shown.unlink(missing_ok=True)
        os.write(self.master, f"{CLEAR}{keys}{SHOW}".encode())
        end = time.monotonic() + LIMIT_S
        while not shown.exists():
            assert time.monotonic() < end and self.process.poll() is None, self.screen[-2000:].decode(errors="replace")
            time.sleep(0.01)
        return shown.read_text().rstrip("\n")

    def complete(self, text):
        return self.line(text + TAB)

    def offers(self, text, words):
        """Whether all these are listed when the word may go on in several ways."""
        if self.shell == "fish":  # its list scrolls; asked so, it prints the same
            return words <= {row.split("\t")[0] for row in self.output(f"complete -C '{text}'").splitlines()}
        self.screen = b""
        self.line(text + TAB + TAB)
        end = time.monotonic() + SHOWN_S
        while not words <= self.shown() and time.monotonic() < end:
            time.sleep(0.01)  # what was printed before is still on its way
        return words <= self.shown()

    def shown(self):
        text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", " ", self.screen.decode(errors="replace"))
        return set(re.findall(r"[\w./+-]+", text))

    def output(self, command):
        """What a command prints that the shell runs."""
        self.line(f"{command} >~/output; echo\r")
        return (self.home / "output").read_text()

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture(scope="module", params=[(s, way) for s in SHELLS for way in ("installed", "printed")], ids="-".join)
def terminal(request, prefix, tmp_path_factory):
    shell, way = request.param
    if not shutil.which(shell):
        pytest.skip(f"'{shell}' is not installed")
    opened = Terminal(shell, prefix, tmp_path_factory.mktemp(f"{shell}-{way}"), way == "installed")
    yield opened
    opened.close()


COMPLETED = {
    "a command": ("vramtrace tim", "vramtrace timeline "),
    "a command after help": ("vramtrace help tim", "vramtrace help timeline "),
    "an option": ("vramtrace peak --dep", "vramtrace peak --depth"),
    "an option after a recording": ("vramtrace report train.vtr --verb", "vramtrace report train.vtr --verbose "),
    "a value": ("vramtrace report --color ne", "vramtrace report --color never "),
    "a value after an equals sign": ("vramtrace report --color=ne", "vramtrace report --color=never "),
    "a value after a letter": ("vramtrace check -f jun", "vramtrace check -f junit "),
    "a kind of group": ("vramtrace peak --by cat", "vramtrace peak --by category "),
    "an optional value": ("vramtrace run --cupti=of", "vramtrace run --cupti=off "),
    "a GPU": ("vramtrace run --simulate h20", "vramtrace run --simulate h200 "),
    "a recording": ("vramtrace report tr", "vramtrace report train.vtr/"),
    "a recording with a blank": ("vramtrace report jo", "vramtrace report job\\ one.vtr/"),
    "a second recording": ("vramtrace diff train.vtr jo", "vramtrace diff train.vtr job\\ one.vtr/"),
    "a file of an option": ("vramtrace check --limits li", "vramtrace check --limits limits.toml "),
    "a word of a list": ("vramtrace completion fi", "vramtrace completion fish "),
    "no path where none may stand": ("vramtrace gpu tr", "vramtrace gpu tr"),
    "no path where a number stands": ("vramtrace peak --depth tr", "vramtrace peak --depth tr"),
    "a program": ("vramtrace run -q -o tr.vtr vramtra", "vramtrace run -q -o tr.vtr vramtrace "),
    "the program's arguments": ("vramtrace run -o a.vtr -- vramtrace tim", "vramtrace run -o a.vtr -- vramtrace timeline "),
    "a path among them": ("vramtrace run -q ls train", "vramtrace run -q ls train.vtr/"),
}


@pytest.mark.parametrize("what", COMPLETED)
def test_completes(terminal, what):
    typed, completed = COMPLETED[what]
    if what == "the program's arguments" and terminal.is_bash_alone:
        pytest.skip("bash completes another program's arguments with the package bash-completion")
    assert terminal.complete(typed).rstrip(" =") == completed.rstrip()  # zsh adds "=" to an option that has a value


def test_offers_every_command(terminal, vramtrace):
    commands = set(re.findall(r"^  ([a-z-]+) +", vramtrace.call("help").stdout, re.M)) - {"vramtrace"}
    assert {"run", "report", "completion"} <= commands
    assert terminal.offers("vramtrace ", commands)


@pytest.mark.parametrize("command", ["run", "estimate", "check", "dump"])
def test_offers_every_option(terminal, vramtrace, command):
    options = set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", vramtrace.call(command, "-h").stdout, re.M))
    assert "--help" in options and terminal.offers(f"vramtrace {command} --", options)


@pytest.mark.parametrize("shell", SHELLS)
def test_shell_finds_no_mistake(vramtrace, tmp_path, shell):
    if not shutil.which(shell):
        pytest.skip(f"'{shell}' is not installed")
    script = tmp_path / "script"
    script.write_text(vramtrace.call("completion", shell).stdout)
    done = subprocess.run([shell, "-n", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
