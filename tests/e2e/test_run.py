# SPDX-License-Identifier: MIT
"""`run` stands in for the program it starts: status, signals, terminal, streams, and the name of the recording.

The programs here are ordinary ones that never touch a GPU.
"""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import time

import pytest

from harness import program_environment

WAIT_S = 60
PASSED_ON = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCONT"]


def wait_until(condition, what):
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.01)


@pytest.fixture
def run(vramtrace, tmp_path):
    """run(program, *options): `vramtrace run` in this test's folder; returns the CompletedProcess."""

    def call(program, *options, env=None, **more):
        argv = [vramtrace.program, "run", *options, "--", *program]
        more = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL, "cwd": tmp_path} | more
        return subprocess.run(
            [str(word) for word in argv], env=program_environment(env), timeout=WAIT_S, **more
        )

    return call


@pytest.fixture
def start(vramtrace, tmp_path):
    """start(program, ...): the same in the background, killed when the test ends."""
    started = []

    def popen(program, *options, before=(), **more):
        argv = [*before, vramtrace.program, "run", "-q", *options, "--", *program]
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "cwd": tmp_path} | more
        process = subprocess.Popen([str(word) for word in argv], env=program_environment(), **more)
        started.append(process)
        return process

    yield popen
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def python(code, *arguments):
    return [sys.executable, "-c", textwrap.dedent(code), *arguments]


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# ---- the end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1, 2, 7, 125, 255])
def test_exit_status(run, status):
    assert run(["sh", "-c", f"exit {status}"]).returncode == status


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGABRT", "SIGSEGV", "SIGHUP", "SIGPIPE", "SIGUSR1", "SIGINT"])
def test_signal_death(run, name):
    done = run(["sh", "-c", f"kill -{name[3:]} $$"])
    assert done.returncode == -signal.Signals[name]


def test_signal_death_leaves_no_second_core(run, tmp_path):
    done = run(["sh", "-c", "ulimit -c 0; kill -ABRT $$"], preexec_fn=lambda: raise_core_limit())
    assert done.returncode == -signal.SIGABRT
    assert not list(tmp_path.glob("core*"))


def raise_core_limit():
    import resource

    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


def test_own_trouble(run, tmp_path):
    assert run([]).returncode == 125
    assert run(["true"], "--no-such-option").returncode == 125
    assert run(["true"], "--no-record").returncode == 125
    assert run([tmp_path / "missing"]).returncode == 127
    assert run(["no-such-program-anywhere"]).returncode == 127
    assert run([tmp_path]).returncode == 126


def test_exec_finds_the_same_trouble(run, tmp_path):
    assert run([tmp_path / "missing"], "--exec").returncode == 127
    assert run([tmp_path], "--exec").returncode == 126


def test_script_without_interpreter_line(run, tmp_path):
    script = tmp_path / "script"
    script.write_text("exit 9\n")
    script.chmod(0o755)
    assert run([script]).returncode == 9


# ---- streams -----------------------------------------------------------------------------------------------------


def test_streams_are_the_programs(run):
    data = bytes(range(256)) * 1000
    done = run(["sh", "-c", "cat; echo error >&2"], "-q", input=data, text=False, stdin=None)
    assert done.stdout == data
    assert done.stderr == b"error\n"


def test_closing_line_only_on_stderr(run):
    done = run(["echo", "hello"])
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert done.stderr.splitlines()[0] == "vramtrace: nothing recorded: no use of GPU memory was seen"


def test_where_no_gpu_answers_the_simulated_one_is_named(vramtrace, run):
    has_gpu = vramtrace.json("gpu")["found"] if vramtrace.call("gpu").returncode == 0 else False
    for options, hints in (([], not has_gpu), (["--simulate", "h100"], False), (["-q"], False)):
        done = run(["true"], *options)
        assert done.returncode == 0 and ("--simulate h100" in done.stderr) == hints


def test_no_record_has_no_closing_lines(run):
    done = run(["echo", "hello"], "--no-record", "--simulate", "h100")
    assert (done.stdout, done.stderr) == ("hello\n", "")


def test_closed_stderr_changes_no_status(run):
    reader, writer = os.pipe()
    os.close(reader)
    done = run(["sh", "-c", "exit 3"], capture_output=False, stderr=writer)
    os.close(writer)
    assert done.returncode == 3


def test_closed_streams_stay_closed(vramtrace, tmp_path):
    """And nothing that `run` opens takes their place."""
    script = f"'{vramtrace.program}' run -o x.vtr -- sh -c 'ls /proc/self/fd >fds; exit 4' <&- >&- 2>&-"
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=program_environment(), timeout=WAIT_S)
    assert done.returncode == 4
    # ls has what it writes to, and the folder it reads.
    assert (tmp_path / "fds").read_text().split() == ["0", "1"]


def test_program_inherits_no_descriptors(run):
    done = run(["sh", "-c", "ls /proc/self/fd"], "-q")
    assert len(done.stdout.split()) == 4  # 0, 1, 2, and the one that ls reads the folder with


# ---- signals -----------------------------------------------------------------------------------------------------

COUNT_SIGNALS = """
    import os, signal, sys, time
    def say(*words):  # not by print(), which must not be entered again from a handler
        os.write(1, (" ".join(map(str, words)) + "\\n").encode())
    def note(number, frame):
        say(signal.Signals(number).name)
        if number == signal.SIGTERM:
            sys.exit(0)
    for name in sys.argv[1:]:
        signal.signal(getattr(signal, name), note)
    say("ready", os.getpid(), os.getpgid(0))
    while True:
        time.sleep(0.1)  # pause() would sleep through a signal that came just before
"""


@pytest.mark.parametrize("name", PASSED_ON)
def test_signals_are_passed_on(start, name):
    process = start(python(COUNT_SIGNALS, *PASSED_ON))
    assert process.stdout.readline().startswith(b"ready")
    process.send_signal(signal.Signals[name])
    assert process.stdout.readline().decode().strip() == name
    if name != "SIGTERM":  # which has ended it
        process.terminate()
    assert process.wait(WAIT_S) == 0


def test_default_action_of_a_passed_signal(start):
    process = start(["sleep", "1000"])
    time.sleep(0.2)
    process.terminate()
    assert process.wait(WAIT_S) == -signal.SIGTERM


def test_signal_from_the_program_to_its_group(start):
    """A trap that signals its own group must not be answered for ever."""
    process = start(python("""
        import os, signal
        seen = []
        signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
        os.killpg(0, signal.SIGUSR1)
        import time; time.sleep(0.3)
        print(len(seen), flush=True)
    """), start_new_session=True)
    assert process.stdout.readline() == b"1\n"
    assert process.wait(WAIT_S) == 0


def test_process_group_is_kept(start):
    process = start(python(COUNT_SIGNALS, "SIGTERM"))
    _, pid, group = process.stdout.readline().split()
    assert int(group) == os.getpgid(process.pid)
    assert int(pid) != process.pid


def test_killed_launcher_takes_the_program_along(start):
    process = start(python(COUNT_SIGNALS, "SIGTERM"))
    pid = int(process.stdout.readline().split()[1])
    process.kill()
    process.wait()
    wait_until(lambda: not is_running(pid), "the program outlived its launcher")


def test_signal_state_is_inherited(vramtrace, tmp_path):
    """What the caller ignored (nohup) or blocked stays ignored or blocked, and nothing else is."""
    show = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"]

    def prepare():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])

    def printed(argv):
        done = subprocess.run(
            [str(word) for word in argv], env=program_environment(), preexec_fn=prepare, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert printed([vramtrace.program, "run", "-q", "--", *show]) == printed(show)


def test_exec_keeps_the_pid(start):
    process = start(python(COUNT_SIGNALS, "SIGTERM"), "--exec")
    assert int(process.stdout.readline().split()[1]) == process.pid
    process.terminate()
    assert process.wait(WAIT_S) == 0


# ---- the terminal ------------------------------------------------------------------------------------------------


class Terminal:
    """A program that leads a session on a pseudo terminal of its own."""

    def __init__(self, argv, cwd, env=None):
        self.pid, self.master = pty.fork()
        if not self.pid:
            os.chdir(cwd)
            os.execve(argv[0], [str(word) for word in argv], program_environment(env))
        self.printed = b""
        self.status = None

    def type(self, keys):
        os.write(self.master, keys)

    def read(self):
        """Take in what is printed within a moment; False at the end."""
        if not select.select([self.master], [], [], 0.05)[0]:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:  # EIO: the last process has closed its end
            return False
        self.printed += data
        return bool(data)

    def expect(self, text, count=1):
        end = time.monotonic() + WAIT_S
        while self.printed.count(text) < count:
            assert self.read() and time.monotonic() < end, f"'{text}' not in {self.printed}"

    def wait(self):
        end = time.monotonic() + WAIT_S
        while self.read():
            assert time.monotonic() < end, f"does not end: {self.printed}"
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)


@pytest.fixture
def terminal(tmp_path):
    opened = []

    def open_terminal(argv, env=None):
        opened.append(Terminal(list(map(str, argv)), tmp_path, env))
        return opened[-1]

    yield open_terminal
    for t in opened:
        t.close()


def test_interrupt_is_delivered_once(terminal, vramtrace):
    """^C reaches the whole foreground group: `run` must not pass it on a second time."""
    t = terminal([vramtrace.program, "run", "-q", "--", *python(COUNT_SIGNALS, "SIGINT", "SIGTERM")])
    t.expect(b"ready")
    for presses in (1, 2):
        t.type(b"\x03")
        t.expect(b"SIGINT", presses)
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        t.read()
    assert t.printed.count(b"SIGINT") == 2
    os.kill(t.pid, signal.SIGTERM)
    assert t.wait() == 0


def test_job_control(terminal, vramtrace):
    """^Z under an interactive shell stops program and launcher; fg lets both go on."""
    shell = shutil.which("bash")
    if not shell:
        pytest.skip("job control is tested with bash")
    t = terminal([shell, "--norc", "--noprofile", "-i"], env={"PS1": "prompt> ", "TERM": "dumb"})
    t.expect(b"prompt> ")
    t.type(f"{vramtrace.program} run -q -- sh -c 'echo be\"\"gun; read line; echo got-$line; exit 5'\r".encode())
    t.expect(b"begun\r\n")
    t.type(b"\x1a")
    t.expect(b"Stopped")
    t.type(b"fg\r")
    # On a line of its own only bash prints it. Until then its line editor would take what is typed next.
    t.expect(f"\n{vramtrace.program} run".encode())
    t.type(b"word\r")
    t.expect(b"got-word")
    t.type(b"echo status-$?\r")
    t.expect(b"status-5")
    t.type(b"exit\r")
    t.wait()


def test_stop_and_continue_by_signal(start):
    """SIGTSTP sent to `run` alone stops the program, and then `run`; SIGCONT wakes both."""
    process = start(python(COUNT_SIGNALS, "SIGTERM", "SIGCONT"), start_new_session=False, process_group=0)
    pid = int(process.stdout.readline().split()[1])

    def state(of):
        with open(f"/proc/{of}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]

    process.send_signal(signal.SIGTSTP)
    wait_until(lambda: state(pid) == "T" and state(process.pid) == "T", "not stopped")
    process.send_signal(signal.SIGCONT)
    assert process.stdout.readline().strip() == b"SIGCONT"
    process.terminate()
    assert process.stdout.readline().strip() == b"SIGTERM"
    assert process.wait(WAIT_S) == 0


# ---- PID 1 -------------------------------------------------------------------------------------------------------


@pytest.fixture
def as_pid_1():
    """The words that run a command as PID 1 of a pid namespace."""
    for words in (["unshare", "-pf", "--mount-proc"], ["unshare", "-Urpf", "--mount-proc"]):
        try:
            if subprocess.run([*words, "true"], capture_output=True).returncode == 0:
                return words
        except OSError:
            break
    pytest.skip("no pid namespace can be made here")


def test_pid_1_reaps_and_passes_the_status(start, as_pid_1):
    process = start(
        python("""
            import os, subprocess, sys, time
            for _ in range(5):  # orphans: their parent ends at once
                subprocess.run(["sh", "-c", "sleep 0.1 &"])
            time.sleep(0.5)
            states = []
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    states.append(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0])
                except OSError:
                    pass
            print(os.getppid(), states.count("Z"), flush=True)
            sys.exit(6)
        """),
        before=as_pid_1,
    )
    assert process.stdout.readline() == b"1 0\n"
    assert process.wait(WAIT_S) == 6


def test_pid_1_cannot_die_of_a_signal(start, as_pid_1):
    process = start(["sh", "-c", "kill -TERM $$"], before=as_pid_1)
    assert process.wait(WAIT_S) == 128 + signal.SIGTERM


# ---- environment -------------------------------------------------------------------------------------------------


def environment_of(run, *options, env=None, program=None):
    done = run(program or ["env"], "-q", *options, env=env)
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def test_preload_comes_first_and_keeps_what_was_there(run, vramtrace, tmp_path, compile_c):
    source = tmp_path / "other.c"
    source.write_text("int other_library;\n")
    other = compile_c(source, "-shared", "-fPIC")
    env = environment_of(run, "--simulate", "h100", env={"LD_PRELOAD": str(other), "LD_LIBRARY_PATH": "/somewhere"})
    simgpu = vramtrace.interpose.parent / "simgpu"
    assert env["LD_PRELOAD"].split(":") == [str(vramtrace.interpose), str(simgpu / "libsimgpu.so"), str(other)]
    assert env["LD_LIBRARY_PATH"] == f"{simgpu}:/somewhere"
    assert env["TRITON_LIBCUDA_PATH"] == str(simgpu)
    assert env["SIMGPU_PROFILE"] == env["VRAMTRACE_SIMULATE"] == "h100"


def test_no_record_lends_only_the_gpu(run):
    env = environment_of(run, "--no-record", "--simulate", "2xh100")
    assert env["LD_PRELOAD"].endswith("/libsimgpu.so") and "interpose" not in env["LD_PRELOAD"]
    assert env["SIMGPU_DEVICES"] == "2"
    assert "VRAMTRACE_OUTPUT" not in env


def test_nested_run_joins(run, vramtrace):
    """An inner run takes part in the outer one's job and recording, and preloads nothing twice."""
    inner = [vramtrace.program, "run", "-q", "--", "env"]
    env = environment_of(run, "-o", "outer.vtr", env={"VRAMTRACE_JOB": "outer-job"}, program=inner)
    assert env["VRAMTRACE_JOB"] == "outer-job"
    assert env["VRAMTRACE_OUTPUT"].endswith("/outer.vtr")
    assert env["LD_PRELOAD"].count("libinterpose.so") == 1


# ---- names -------------------------------------------------------------------------------------------------------


def output_of(run, *options, env=None, program=("printenv", "VRAMTRACE_OUTPUT")):
    done = run(program, "-q", *options, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


PRINT_OUTPUT = "import os; print(os.environ['VRAMTRACE_OUTPUT'])\n"


def test_default_name_of_a_program(run, tmp_path):
    assert output_of(run, env={"SLURM_JOB_ID": "77"}) == str(tmp_path / "vramtrace-printenv-77.vtr")


@pytest.mark.parametrize("options", [[], ["-u"], ["-W", "ignore"], ["-X", "dev"], ["-Bu", "-Wignore"]])
def test_default_name_of_a_script(run, tmp_path, options):
    (tmp_path / "train.py").write_text(PRINT_OUTPUT)
    program = [sys.executable, *options, "train.py", "-m", "other"]
    assert output_of(run, env={"SLURM_JOB_ID": "77"}, program=program) == str(tmp_path / "vramtrace-train-77.vtr")


def test_default_name_of_a_module(run, tmp_path):
    (tmp_path / "trainer.py").write_text(PRINT_OUTPUT)
    program = [sys.executable, "-m", "trainer"]
    assert output_of(run, env={"PBS_JOBID": "8.host"}, program=program) == str(
        tmp_path / "vramtrace-trainer-8.host.vtr"
    )


@pytest.mark.parametrize(
    "env, job",
    [
        ({"SLURM_JOB_ID": "5", "TORCHELASTIC_RUN_ID": "e"}, "5"),
        ({"TORCHELASTIC_RUN_ID": "e"}, "e"),
        ({"TORCHELASTIC_RUN_ID": "e", "TORCHELASTIC_RESTART_COUNT": "0"}, "e"),
        ({"TORCHELASTIC_RUN_ID": "e", "TORCHELASTIC_RESTART_COUNT": "2"}, "e.r2"),
        ({"TORCHELASTIC_RUN_ID": "none", "LSB_JOBID": "9"}, "9"),
        ({"SLURM_JOB_ID": "a/b"}, "a_b"),
    ],
)
def test_job_ids(run, env, job):
    assert output_of(run, "-o", "%j.vtr", env=env).endswith(f"/{job}.vtr")


def test_own_job_id_holds_time_and_pid(run):
    name = output_of(run, "-o", "%j.vtr")
    assert re.search(r"/20\d{6}-\d{6}-\d+\.vtr$", name)


def test_placeholders(run, tmp_path):
    program = ["sh", "-c", "echo $$; echo $VRAMTRACE_OUTPUT"]
    done = run(program, "-q", "-o", "%h.%r.%p.100%%.vtr", env={"RANK": "3"})
    pid, output = done.stdout.split()
    assert output.replace("%%", "%") == f"{tmp_path}/{socket.gethostname()}.3.{pid}.100%.vtr"


# ---- what is in the way ------------------------------------------------------------------------------------------


def make_recording(path, job="another-job"):
    path.mkdir()
    (path / "job").write_text(job + "\n")
    (path / "host.1.1.vtr").write_bytes(b"")
    (path / "g2").mkdir()
    (path / "g2" / "job").write_text(job + "\n")
    (path / "g2" / "host.2.2.vtr").write_bytes(b"")
    (path / "g2" / "host.2.2.ring").write_bytes(b"")


def run_on_terminal(terminal, vramtrace, *options, program=("echo", "has run"), env=None):
    t = terminal([vramtrace.program, "run", *options, "--", *program], env=env)
    return t.wait(), t.printed.decode()


def test_missing_folder(run, tmp_path):
    done = run(["touch", "started"], "-o", "missing/job.vtr")
    assert done.returncode == 125
    assert "missing'" in done.stderr and "No such file or directory" in done.stderr
    assert not (tmp_path / "started").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission(run, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o555)
    done = run(["true"], "-o", "closed/job.vtr")
    assert done.returncode == 125 and "Permission denied" in done.stderr


def test_existing_recording_is_refused_on_a_terminal(terminal, vramtrace, tmp_path):
    make_recording(tmp_path / "job.vtr")
    status, printed = run_on_terminal(terminal, vramtrace, "-o", "job.vtr")
    assert status == 125
    assert "job.vtr'" in printed and "--force" in printed and "has run" not in printed
    assert (tmp_path / "job.vtr" / "g2" / "host.2.2.ring").exists()


def test_existing_recording_is_no_obstacle_without_a_terminal(run, tmp_path):
    make_recording(tmp_path / "job.vtr")
    assert run(["true"], "-o", "job.vtr").returncode == 0
    assert (tmp_path / "job.vtr" / "host.1.1.vtr").exists()


@pytest.mark.parametrize("env", [{"SLURM_JOB_ID": "1"}, {"TORCHELASTIC_RUN_ID": "none"}, {"LSB_JOBID": "1"}])
def test_existing_recording_is_no_obstacle_under_a_launcher(terminal, vramtrace, tmp_path, env):
    make_recording(tmp_path / "job.vtr")
    status, printed = run_on_terminal(terminal, vramtrace, "-o", "job.vtr", env=env)
    assert status == 0 and "has run" in printed


def test_recording_of_the_same_job_is_joined(terminal, vramtrace, tmp_path):
    make_recording(tmp_path / "job.vtr", job="mine")
    status, _ = run_on_terminal(terminal, vramtrace, "-o", "job.vtr", env={"VRAMTRACE_JOB": "mine"})
    assert status == 0


def test_force_removes_traces_only(terminal, vramtrace, tmp_path):
    make_recording(tmp_path / "job.vtr")
    status, printed = run_on_terminal(terminal, vramtrace, "--force", "-o", "job.vtr")
    assert status == 0 and "has run" in printed
    assert not list((tmp_path / "job.vtr").rglob("*"))


def test_force_spares_what_is_no_recording(terminal, vramtrace, tmp_path):
    make_recording(tmp_path / "job.vtr")
    (tmp_path / "job.vtr" / "thesis.tex").write_text("years of work")
    status, printed = run_on_terminal(terminal, vramtrace, "--force", "-o", "job.vtr")
    assert status == 125 and "'thesis.tex'" in printed
    assert (tmp_path / "job.vtr" / "host.1.1.vtr").exists()


def test_force_spares_a_running_recording(terminal, vramtrace, tmp_path):
    make_recording(tmp_path / "job.vtr")
    lock = struct.pack("hhqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    with open(tmp_path / "job.vtr" / "g2" / "host.2.2.vtr", "r+b") as trace:
        fcntl.fcntl(trace, 37, lock)  # F_OFD_SETLK, which Python 3.8 does not name
        status, printed = run_on_terminal(terminal, vramtrace, "--force", "-o", "job.vtr")
    assert status == 125 and "still being recorded" in printed
    assert (tmp_path / "job.vtr" / "host.1.1.vtr").exists()


def test_force_follows_no_links(terminal, vramtrace, tmp_path):
    make_recording(tmp_path / "elsewhere")
    (tmp_path / "job.vtr").mkdir()
    (tmp_path / "job.vtr" / "job").write_text("another-job\n")
    (tmp_path / "job.vtr" / "g2").symlink_to(tmp_path / "elsewhere")
    status, _ = run_on_terminal(terminal, vramtrace, "--force", "-o", "job.vtr")
    assert status == 125
    assert (tmp_path / "elsewhere" / "host.1.1.vtr").exists()


def test_output_that_is_a_file(terminal, vramtrace, tmp_path):
    (tmp_path / "job.vtr").write_text("precious")
    for options in ([], ["--force"]):
        status, printed = run_on_terminal(terminal, vramtrace, *options, "-o", "job.vtr")
        assert status == 125 and "not a recording" in printed
    assert (tmp_path / "job.vtr").read_text() == "precious"
