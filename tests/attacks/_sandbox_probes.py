"""What programs try in a sandbox, as data: a name, the Python code of the attempt, and how success is told.

- `leak`: a secret of the scene appears in what the attempt prints
- `heard`: a listener or a process outside noticed it, or a file outside or a protected one changed
- `used`: whoever looks at its processes from outside saw it use more than its bounds
- `said`: the attempt prints `ESCAPED`, where only the kernel's answer can tell

The code runs in a process of its own with `P` (the scene's paths and numbers), `sc` (a raw system call that raises),
`libc`, `escaped` (prints the mark) and the modules `os`, `socket`, `ctypes`, `struct`, `time`.
"""

from __future__ import annotations

PRELUDE = """
import ctypes, json, os, socket, struct, sys, time
P = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def sc(*a):
    r = libc.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
    if r < 0:
        raise OSError(ctypes.get_errno(), "syscall")
    return r
def escaped(*_):
    print("ESCAPED", flush=True)
def show(path):
    print(open(path, errors="replace").read(), flush=True)
def put(path, text="changed", mode="w"):
    with open(path, mode) as f:
        f.write(text)
def says(family, address, text, kind=socket.SOCK_STREAM):
    s = socket.socket(family, kind)
    s.settimeout(2)
    s.connect(address)
    s.send(text.encode())
    s.close()
def machine_code(code):
    import mmap
    m = mmap.mmap(-1, 4096, prot=7)
    m.write(code)
    at = ctypes.addressof(ctypes.c_char.from_buffer(m))
    return ctypes.CFUNCTYPE(ctypes.c_long)(at)()
def named(number):
    libc.prctl(15, (P["name"] % number).encode())  # its children have the name, too
def until(act):
    try:
        act()
    except (OSError, MemoryError) as e:
        print("!", type(e).__name__, e, flush=True)
    time.sleep(1)  # to be looked at
W, O = P["work"], P["outside"]
FIRST = os.getppid() if P["tier"] == "B" else 1  # the supervisor, or the namespace's first process
"""

# Each runs in a forked child of one program.
FILES: dict[str, tuple[str, str]] = {
    "read-outside": ("leak", 'show(O + "/secret")'),
    "read-outside-by-link": ("leak", 'show(W + "/link-out")'),
    "read-outside-by-linked-folder": ("leak", 'show(W + "/folder-out/secret")'),
    "read-outside-by-new-link": ("leak", 'os.symlink(O + "/secret", W + "/new-link"); show(W + "/new-link")'),
    "read-outside-by-dotdot": ("leak", 'show(W + "/../outside/secret")'),
    "read-outside-by-many-dotdots": ("leak", 'os.chdir("/"); show("../../../.." + O + "/secret")'),
    "read-outside-by-process-root": ("leak", 'show("/proc/1/root" + O + "/secret")'),
    "read-outside-by-runtime-root": ("leak", 'show("/proc/%d/root%s/secret" % (P["runtime"], O))'),
    "read-outside-by-runtime-folder": ("leak", 'show("/proc/%d/cwd/secret" % P["runtime"])'),
    "read-outside-by-inherited-descriptor": (
        "leak",
        (
            "for n in range(3, 300):\n"
            "    try:\n        print(os.pread(n, 4096, 0))\n    except OSError:\n        pass\n"
            "    try:\n        show('/proc/self/fd/%d/secret' % n)\n    except OSError:\n        pass"
        ),
    ),
    "read-a-home-key": ("leak", 'show(O + "/home/.ssh/id_rsa")'),
    "read-the-machine's-passwords": ("leak", 'show("/etc/shadow")'),
    "read-the-users'-homes": (
        "said",
        (
            'for d in ("/root", "/home"):\n    if os.access(d, 4):\n        for n in os.listdir(d):\n'
            "            if os.path.isfile(d + '/' + n): escaped()"
        ),
    ),
    "read-tmp-of-the-machine": ("leak", 'show(P["tmp_file"])'),
    "read-shared-memory-files": ("leak", 'show(P["shm_file"])'),
    "list-run": ("leak", 'print(os.listdir("/run"))'),
    "read-hidden-file": ("leak", 'show(W + "/.netrc")'),
    "read-hidden-file-in-a-read-root": ("leak", 'show(P["read"] + "/.netrc")'),
    "read-hidden-file-deep": ("leak", 'show(W + "/a/b/c/.pgpass")'),
    "read-hidden-key": ("leak", 'show(W + "/.ssh/id_rsa")'),
    "read-hidden-key-in-capitals": ("leak", 'show(W + "/.SSH/key")'),
    "list-hidden-folder": ("leak", 'print(os.listdir(W + "/.ssh"))'),
    "read-hidden-by-renamed-parent": ("leak", 'os.rename(W + "/a/b", W + "/a/z"); show(W + "/a/z/c/.pgpass")'),
    "read-hidden-by-hard-link": ("leak", 'os.link(W + "/.netrc", W + "/linked"); show(W + "/linked")'),
    "read-hidden-by-rename": ("leak", 'os.rename(W + "/.netrc", W + "/plain"); show(W + "/plain")'),
    "read-hidden-by-folder-rename": ("leak", 'os.rename(W + "/.ssh", W + "/plain2"); show(W + "/plain2/id_rsa")'),
    "read-hidden-by-handle": (
        "leak",
        'd = os.open(W, os.O_RDONLY); f = os.open(".netrc", os.O_RDONLY, dir_fd=d); print(os.read(f, 999))',
    ),
    "read-hidden-by-chmod": ("leak", 'os.chmod(W + "/.netrc", 0o644); show(W + "/.netrc")'),
    "read-hidden-by-unmounting": ("leak", 'libc.umount2((W + "/.netrc").encode(), 2); show(W + "/.netrc")'),
    "read-the-runtime's-state": ("leak", 'show(W + "/.state/journal")'),
    "read-by-file-handle": (
        "said",
        (
            'b = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 140); m = ctypes.c_int()\n'
            'sc(303, -100, b"/usr", b, ctypes.byref(m), 0); escaped()'
        ),
    ),
    "write-outside": ("heard", 'put(O + "/target")'),
    "create-outside": ("heard", 'put(O + "/created")'),
    "write-outside-by-link": ("heard", 'put(W + "/link-target")'),
    "create-outside-by-linked-folder": ("heard", 'put(W + "/folder-out/created-too")'),
    "move-outside": ("heard", 'put(W + "/mine"); os.rename(W + "/mine", O + "/moved")'),
    "hard-link-outside": ("leak", 'os.link(O + "/secret", W + "/hard"); show(W + "/hard")'),
    "truncate-outside": ("heard", 'os.truncate(O + "/target2", 0)'),
    "delete-outside": ("heard", 'os.unlink(O + "/target3")'),
    "chmod-outside": ("heard", 'os.chmod(O + "/target4", 0o777)'),
    "utime-outside": ("heard", 'os.utime(O + "/target5", (1, 1))'),
    "xattr-outside": ("heard", 'os.setxattr(O + "/target6", "user.x", b"y")'),
    "chmod-system": ("said", 'os.chmod("/usr/bin/env", 0o755); escaped()'),
    "write-read-root": ("heard", 'put(P["read"] + "/text")'),
    "create-in-read-root": ("heard", 'put(P["read"] + "/made")'),
    "chmod-read-root": ("heard", 'os.chmod(P["read"] + "/text2", 0o777)'),
    "write-system": ("heard", 'put(P["usr_file"])'),
    "write-etc": ("heard", 'put(P["etc_file"])'),
    "write-locked-file": ("heard", 'put(W + "/.git/config", "[core]\\nhooksPath=x\\n", "a")'),
    "write-locked-settings": ("heard", 'put(W + "/handrail.toml")'),
    "add-a-hook": ("heard", 'put(W + "/.git/hooks/post-commit")'),
    "change-a-hook": ("heard", 'put(W + "/.git/hooks/pre-push")'),
    "chmod-a-hook": ("heard", 'os.chmod(W + "/.git/hooks/pre-commit", 0o777)'),
    "replace-locked-by-rename": ("heard", 'put(W + "/x"); os.rename(W + "/x", W + "/.git/config")'),
    "remove-locked": ("heard", 'os.unlink(W + "/.git/config")'),
    "rename-locked-away": ("heard", 'os.rename(W + "/.git/hooks", W + "/.git/other")'),
    "rename-repository-away": ("heard", 'os.rename(W + "/.git", W + "/git2"); os.makedirs(W + "/.git/hooks")'),
    "rename-nested-repository-away": ("heard", 'os.rename(W + "/sub", W + "/sub2"); os.makedirs(W + "/sub/.git")'),
    "replace-a-worktree's-file": ("heard", 'put(W + "/tree/.git", "gitdir: /x")'),
    "exchange-repository": (
        "heard",
        'os.makedirs(W + "/fresh/hooks"); sc(316, -100, (W + "/.git").encode(), -100, (W + "/fresh").encode(), 2)',
    ),
    "write-locked-by-hard-link": ("heard", 'os.link(W + "/.git/config", W + "/c"); put(W + "/c")'),
    "write-locked-by-unmounting": ("heard", 'libc.umount2((W + "/.git/config").encode(), 2); put(W + "/.git/config")'),
    "write-locked-by-remounting": (
        "heard",
        'libc.mount(None, (W + "/.git/config").encode(), None, 4096 | 32, None); put(W + "/.git/config")',
    ),
    "mount-over-locked": (
        "said",
        'if libc.mount(b"t", (W + "/.git/hooks").encode(), b"tmpfs", 0, None) == 0: escaped()',
    ),
    "setuid-bit": ("heard", 'put(W + "/s1"); os.chmod(W + "/s1", 0o4755)'),
    "setuid-bit-by-descriptor": ("heard", 'f = os.open(W + "/s2", os.O_CREAT | os.O_RDWR); os.fchmod(f, 0o6755)'),
    "setuid-bit-by-creation": ("heard", 'os.open(W + "/s3", os.O_CREAT | os.O_RDWR, 0o4755)'),
    "setuid-bit-by-node": ("heard", 'os.mknod(W + "/s4", 0o104755)'),
    "setuid-bit-by-fchmodat2": ("heard", 'put(W + "/s5"); sc(452, -100, (W + "/s5").encode(), 0o4755, 0)'),
    "setuid-bit-by-openat2": (
        "heard",
        'sc(437, -100, (W + "/s6").encode(), struct.pack("QQQ", 0o102, 0o4755, 0), 24)',
    ),
    "setgid-folder": ("heard", 'os.mkdir(W + "/s7"); os.chmod(W + "/s7", 0o2777)'),
    "device-node": ("heard", 'os.mknod(W + "/dev", 0o60666, os.makedev(8, 0))'),
    "open-memory-device": ("said", 'open("/dev/mem", "rb"); escaped()'),
    "open-kernel-log": ("said", 'open("/dev/kmsg", "rb"); escaped()'),
    "open-disk": (
        "said",
        (
            'for n in ("vda", "sda", "nvme0n1"):\n    try:\n        open("/dev/" + n, "rb"); escaped()\n'
            "    except OSError:\n        pass"
        ),
    ),
}

KERNEL: dict[str, tuple[str, str]] = {
    "new-user-namespace": ("said", "sc(272, 0x10000000); escaped()"),
    "new-mount-namespace": ("said", "sc(272, 0x20000); escaped()"),
    "new-time-namespace": ("said", "sc(272, 0x80); escaped()"),
    "user-namespace-by-clone": (
        "said",
        "pid = sc(56, 0x10000000 | 17, 0, 0, 0, 0)\nif pid == 0: os._exit(0)\nescaped()",
    ),
    "user-namespace-by-clone3": (
        "said",
        ('b = struct.pack("8Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0); pid = sc(435, b, 64)\n'
        "if pid == 0: os._exit(0)\nescaped()"),
    ),
    "enter-another-namespace": ("said", 'f = os.open("/proc/self/ns/uts", 0); sc(308, f, 0); escaped()'),
    "chroot": ("said", 'os.chroot("/usr"); escaped()'),
    "pivot-root": ("said", 'sc(155, b"/", b"/"); escaped()'),
    "open-a-mount-tree": ("said", 'sc(428, -100, b"/", 0x8001); escaped()'),
    "new-file-system": ("said", 'sc(430, b"tmpfs", 0); escaped()'),
    "trace-the-first-process": ("said", "sc(101, 16, FIRST, 0, 0); escaped()"),
    "trace-a-child": (
        "said",
        ("p = os.fork()\nif p == 0:\n    time.sleep(5); os._exit(0)\n"
        "try:\n    sc(101, 16, p, 0, 0); escaped()\nfinally:\n    os.kill(p, 9)"),
    ),
    "read-the-first-process's-memory": (
        "said",
        ('b = ctypes.create_string_buffer(8); v = struct.pack("QQ", ctypes.addressof(b), 8)\n'
        'try:\n    sc(310, FIRST, v, 1, struct.pack("QQ", 0x400000, 8), 1, 0); escaped()\n'
        "except OSError as e:\n    if e.errno == 14: escaped()\n    raise"),  # a bad address is found after the leave
    ),
    "open-the-first-process's-memory": ("said", 'open("/proc/1/mem", "rb"); escaped()'),
    "read-the-first-process's-environment": ("said", 'open("/proc/1/environ", "rb").read(); escaped()'),
    "read-the-first-process's-descriptors": (
        "said",
        'for n in os.listdir("/proc/1/fd"): os.readlink("/proc/1/fd/" + n); escaped()',
    ),
    "steal-a-descriptor": ("said", "f = os.pidfd_open(FIRST); sc(438, f, 0, 0); escaped()"),
    "read-the-runtime's-environment": ("leak", 'show("/proc/%d/environ" % P["runtime"])'),
    "read-every-environment": (
        "leak",
        ('for p in os.listdir("/proc"):\n    try:\n        show("/proc/%s/environ" % p)\n'
        "    except OSError:\n        pass"),
    ),
    "see-the-secret-in-one's-own-environment": ("leak", "print(os.environ)"),
    "see-other-processes": (
        "leak",
        (
            'for p in os.listdir("/proc"):\n    try:\n        show("/proc/%s/cmdline" % p)\n'
            "    except OSError:\n        pass"
        ),
    ),
    "see-the-runtime": ("said", "os.stat('/proc/%d/stat' % P['victims']['see-the-runtime']); escaped()"),
    "signal-another-process": ("heard", "os.kill(P['victims']['signal-another-process'], 9)"),
    "signal-by-process-descriptor": (
        "heard",
        "import signal; signal.pidfd_send_signal(os.pidfd_open(P['victims']['signal-by-process-descriptor']), 9)",
    ),
    "signal-another-group": ("heard", "os.killpg(P['victims']['signal-another-group'], 9)"),
    "signal-the-runtime": ("heard", "os.kill(P['runtime'], 10)"),
    "slow-another-process": (
        "heard",
        "os.setpriority(os.PRIO_PROCESS, P['victims']['slow-another-process'], 15)",
    ),
    "limit-another-process": (
        "heard",
        "import resource; resource.prlimit(P['victims']['limit-another-process'], 7, (8, 8))",
    ),
    "raise-one's-own-limits": ("said", "import resource; resource.setrlimit(7, (1 << 19, 1 << 19)); escaped()"),
    "load-a-module": ("said", 'sc(313, 0, b"", 0); escaped()'),
    "load-a-kernel": ("said", "sc(246, 0, 0, 0, 0); escaped()"),
    "reboot": ("said", "sc(169, 0xfee1dead - (1 << 32), 672274793, 0, 0); escaped()"),
    "swap": ("said", 'sc(167, b"/x", 0); escaped()'),
    "accounting": ("said", "sc(163, 0); escaped()"),
    "quota": ("said", 'sc(179, 0x80000700, b"/dev/vda", 0, 0); escaped()'),
    "kernel-log": ("said", "b = ctypes.create_string_buffer(99); sc(103, 3, b, 99); escaped()"),
    "bpf": ("said", 'sc(321, 0, struct.pack("IIII", 2, 4, 4, 1) + bytes(100), 72); escaped()'),
    "performance-counters": ("said", 'sc(298, struct.pack("II", 1, 112) + bytes(104), 0, -1, -1, 0); escaped()'),
    "fault-handling": ("said", "sc(323, 1); escaped()"),
    "io-uring": ("said", "b = ctypes.create_string_buffer(120); sc(425, 1, b); escaped()"),
    "read-the-keyring": ("said", "sc(250, 0, -3, 1); escaped()"),
    "add-a-key": ("said", 'sc(248, b"user", b"x", b"y", 1, -3); escaped()'),
    "request-a-key": ("said", 'sc(249, b"user", b"handrail", 0, -3); escaped()'),
    "set-the-clock": ("said", 'sc(227, 0, struct.pack("qq", int(time.time()), 0)); escaped()'),
    "name-the-machine": ("said", 'sc(170, b"owned", 5); escaped()'),
    "no-randomness-of-addresses": ("said", "sc(135, 0x0040000); escaped()"),
    "core-pattern": ("said", 'open("/proc/sys/kernel/core_pattern", "w"); escaped()'),
    "system-setting": ("said", 'open("/proc/sys/kernel/hostname", "w"); escaped()'),
    "sysrq": ("said", 'open("/proc/sysrq-trigger", "w"); escaped()'),
    "user-mapping": ("said", 'put("/proc/self/uid_map", "0 0 1"); escaped()'),
    "become-root": ("said", "os.setuid(0)\nif os.getuid() == 0 and P['uid']: escaped()"),
    "capabilities": (
        "said",
        ('for l in open("/proc/self/status"):\n'
        '    if l.startswith("Cap") and int(l.split()[1], 16) and not l.startswith("CapBnd"): escaped()\n'
        '    if l.startswith("NoNewPrivs") and l.split()[1] != "1": escaped()'),
    ),
    "capabilities-to-be-had": (
        "said",
        'for l in open("/proc/self/status"):\n    if l.startswith("CapBnd") and int(l.split()[1], 16): escaped()',
    ),
    "gain-by-a-setuid-program": (
        "said",
        ('import subprocess\nfor p in ("/usr/bin/su", "/usr/bin/mount", "/usr/bin/passwd"):\n'
        "    if os.path.exists(p):\n"
        '        r = subprocess.run(["/bin/sh", "-c", "exec " + p + " --version; id -u"], capture_output=True)\n'
        'if os.geteuid() != os.getuid(): escaped()'),
    ),
    "calls-of-another-machine": (
        "said",
        'if P["machine"] == "x86_64":\n    machine_code(bytes.fromhex("b814000000cd80c3")); escaped()',
    ),
    "calls-of-x32": ("said", "sc(0x40000000 + 39); escaped()"),
    "type-into-the-terminal": (
        "said",
        'import fcntl\nfor c in b"id\\n":\n    fcntl.ioctl(0, 0x5412, bytes([c]))\nescaped()',
    ),
    "paste-into-the-terminal": ("said", 'import fcntl\nfcntl.ioctl(0, 0x541c, bytes([3]))\nescaped()'),
    "shared-memory-of-the-machine": ("said", "libc.shmget(P['shm_key'], 0, 0) >= 0 and escaped()"),
    "message-queue-of-the-machine": ("said", "libc.msgget(P['shm_key'], 0) >= 0 and escaped()"),
}  # fmt: skip

NETWORK: dict[str, tuple[str, str]] = {
    "tcp": ("heard", 'says(2, ("127.0.0.1", P["tcp"]), "tcp")'),
    "tcp-other-loopback": ("heard", 'says(2, ("127.0.0.2", P["tcp"]), "tcp-other-loopback")'),
    "tcp-any-address": ("heard", 'says(2, ("0.0.0.0", P["tcp"]), "tcp-any-address")'),
    "tcp-own-address": ("heard", 'says(2, (P["address"], P["tcp"]), "tcp-own-address")'),
    "tcp-6": ("heard", 'says(10, ("::1", P["tcp6"]), "tcp-6")'),
    "udp": ("heard", 'says(2, ("127.0.0.1", P["udp"]), "udp", socket.SOCK_DGRAM)'),
    "udp-own-address": ("heard", 'says(2, (P["address"], P["udp"]), "udp-own-address", socket.SOCK_DGRAM)'),
    "unix-socket": ("heard", 'says(1, O + "/socket", "unix-socket")'),
    "unix-socket-by-link": ("heard", 'os.symlink(O + "/socket", W + "/sl"); says(1, W + "/sl", "unix-socket-by-link")'),
    "abstract-socket": ("heard", 'says(1, "\\0" + P["abstract"], "abstract-socket")'),
    "vsock": ("said", "socket.socket(40, 1); escaped()"),
    "packet-socket": ("said", "socket.socket(17, 3); escaped()"),
    "raw-socket": ("said", "socket.socket(2, 3, 1); escaped()"),
    "audit-socket": ("said", "socket.socket(16, 3, 9); escaped()"),
    "netfilter-socket": ("said", "socket.socket(16, 3, 12); escaped()"),
    "kernel-crypto-socket": ("said", "socket.socket(38, 5, 0); escaped()"),
    "bluetooth-socket": ("said", "socket.socket(31, 3, 1); escaped()"),
    "change-the-network": (
        "said",
        'import fcntl\ns = socket.socket(2, 2)\nfcntl.ioctl(s, 0x8914, struct.pack("16sh22x", b"lo", 0)); escaped()',
    ),
}

# Each is a program of its own, with tight bounds, and is looked at from outside while it runs.
_FILLS = (
    "fs = []\ndef fill():\n    for i in range(8):\n"
    '        fs.append(open({} + "/f%d" % i, "wb", 0)); fs[-1].write(bytes(4 << 20))\nuntil(fill)'
)
_TOUCHES = "        for i in range(0, len(b), 4096): b[i] = 1\n"
_WATCHED = {
    "too-many-processes": (
        "def fork():\n    for _ in range(200):\n"
        "        if os.fork() == 0:\n            os.close(1); os.close(2); time.sleep(20); os._exit(0)\nuntil(fork)"
    ),
    "too-much-memory": f"def grow():\n    global b\n    b = bytearray(400 << 20)\n    if b:\n{_TOUCHES}until(grow)",
    "too-much-memory-together": (
        "for _ in range(4):\n    if os.fork() == 0:\n        os.close(1); os.close(2); b = bytearray(100 << 20)\n"
        f"{_TOUCHES}        time.sleep(8); os._exit(0)\ntime.sleep(4)"
    ),
    "too-much-scratch": _FILLS.format('os.environ["TMPDIR"]'),
    "too-much-shared-memory": _FILLS.format('"/dev/shm"'),
    "too-many-open-files": "fs = []\ndef fill():\n    for _ in range(200): fs.append(open('/dev/null'))\nuntil(fill)",
    "too-much-processor-time": "while time.process_time() < 1.8: pass\ntime.sleep(1)",
}
WATCHED = tuple(_WATCHED)
BOUNDS: dict[str, tuple[str, str]] = {
    **{name: ("used", f"named({number})\n{code}") for number, (name, code) in enumerate(_WATCHED.items())},
    "too-large-a-file": (
        "heard",
        ('import signal; signal.signal(25, signal.SIG_IGN)\nf = open(W + "/free/large", "wb")\n'
        "for _ in range(20): f.write(bytes(1 << 20))\nf.flush()"),
    ),
    "signal-everybody": ("heard", "os.kill(-1, 9)"),
}  # fmt: skip

BATCH = {**FILES, **KERNEL, **NETWORK}
PROBES = {**BATCH, **BOUNDS}

# What programs may do by design, under the names that the list for readers has: these must get somewhere.
DESIGNED: dict[str, tuple[str, str]] = {
    "see the system's programs": ("said", 'if "env" in os.listdir("/usr/bin"): escaped()'),
    "make a repository of their own": (
        "heard",
        'os.makedirs(W + "/own/.git/hooks"); put(W + "/own/.git/hooks/pre-commit")',
    ),
    "add what was not there": ("heard", 'put(W + "/free/handrail.toml")'),
    "change what is not protected": ("heard", 'put(W + "/free/plain")'),
    "read the layout": ("said", 'if os.getcwd() == W and os.path.exists(P["read"]): escaped()'),
    "use a processor": ("said", 'if len(os.sched_getaffinity(0)) == P["processors"]: escaped()'),
    "talk among themselves": (
        "said",
        ('s = socket.socket(1); s.bind("\\0among"); s.listen(1); p = os.fork()\n'
        'if p == 0:\n    says(1, "\\0among", "x"); time.sleep(5); os._exit(0)\n'
        "e, _ = s.accept(); told = e.recv(9); os.kill(p, 9)\n"
        "if told == b'x' and os.waitpid(p, 0)[1] == 9: escaped()"),
    ),
}  # fmt: skip
