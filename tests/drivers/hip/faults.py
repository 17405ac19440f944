#!/usr/bin/env python3
"""faults.py: the program on the HIP double while calls fail: the right message and exit status, nothing left open.

  python3 tests/drivers/hip/faults.py build/infer build/drivers/hip

A row is what the environment says, and what must be in the output; "" means that the run goes well, and so does what
begins with "warning: ". These runs take the device unchecked, so that calls can be counted; those of CHECKED, which name
the command as well, do not. The double ends a process with status 99 when it was misused or something was not given back.
"""
import os, subprocess, sys

MODEL = "tests/data/models/stories260K.F32.gguf"
ROWS = [
    ({}, ""),
    ({"FAKE_HIP_DEVICES": "2"}, ""),
    ({"FAKE_HIP_DEVICES": "0"}, "backend hip has no usable device: HIP was found, but no device"),
    ({"FAKE_HIP_VERSION": "4.5"}, "ROCm 5.0 is needed, the HIP runtime is of 4.5"),
    ({"FAKE_HIP_VERSION": "5.2"}, "the compiler of ROCm 5.2 does not know gfx1100, 5.3 does; try OpenCL"),
    ({"FAKE_HIP_VERSION": "5.2", "FAKE_HIP_ARCH": "gfx90a:sramecc+:xnack-"}, ""),
    ({"FAKE_HIP_ARCH": "gfx9999"}, "it is a gfx9999, for which nothing is known of the compiler; try OpenCL"),
    ({"FAKE_HIP_MEMORY": "1"}, "no layer fits into the 1048576 bytes of Fake Radeon 0 (gfx1100)"),
    ({"FAKE_HIP_CXX": "no-such-compiler"}, "hiprtcCompileProgram failed: HIPRTC_ERROR_COMPILATION (6): "),
]
FAILS = [  # which call, the code, what the message says of it
    ("hipRuntimeGetVersion:1", 3, "hipErrorUnknown (3)"),
    ("hipGetDeviceCount:1", 999, "hipErrorUnknown (999)"),
    ("hipGetDevicePropertiesR0600:1", 1, "the runtime does not tell its chip"),
    ("hipSetDevice:2+", 101, "hipErrorInvalidDevice (101)"),
    ("hipStreamCreateWithFlags:1", 2, "hipErrorOutOfMemory (2)"),
    ("hipStreamCreateWithFlags:2", 719, "hipErrorLaunchFailure (719)"),
    ("hipMalloc:1", 2, "hipErrorOutOfMemory (2)"),
    ("hipMalloc:5", 2, "warning: layer 3: "),  # fewer layers on the device
    ("hipMemcpyHtoDAsync:1", 719, "hipErrorLaunchFailure (719)"),
    ("hiprtcCreateProgram:1", 3, "HIPRTC_ERROR_INVALID_INPUT (3)"),
    ("hiprtcCompileProgram:2", 6, "HIPRTC_ERROR_COMPILATION (6)"),
    ("hiprtcGetCodeSize:1", 4, "HIPRTC_ERROR_INVALID_PROGRAM (4)"),
    ("hiprtcGetCode:1", 4, "HIPRTC_ERROR_INVALID_PROGRAM (4)"),
    ("hipModuleLoadData:1", 200, "hipErrorInvalidImage (200)"),
    ("hipModuleGetFunction:3", 500, "hipErrorNotFound (500)"),
    ("hipModuleLaunchKernel:1", 719, "hipErrorLaunchFailure (719)"),
    ("hipModuleLaunchKernel:50", 719, "hipErrorLaunchFailure (719)"),
    ("hipStreamSynchronize:1", 719, "hipErrorLaunchFailure (719)"),
    ("hipMemcpyDtoHAsync:1", 719, "hipErrorLaunchFailure (719)"),
    ("hipStreamSynchronize:5+", 719, "hipErrorLaunchFailure (719)"),  # a lost device: no wait ends well any more
]
RUN = ["run", MODEL, "-p", "Once", "-n", "4", "--kernel-cache", ""] # none: calls are counted, and what they compile is not to be kept
DIFFERS = 'kernel k_add (program base, check "add": 3 rows of 300) differs from the CPU by '
CHECKED = [  # arguments, environment, exit status, what is in the output
    (RUN + ["--backend", "hip", "-v"], {}, 0, ": its kernels compute what the CPU does (checked in "),
    (RUN + ["-v"], {}, 0, "auto: hip, Fake Radeon 0 (gfx1100): 5 of 5 layers"),
    (RUN + ["-v"], {"FAKE_HIP_WRONG": "k_add"}, 0, "auto: not hip: Fake Radeon 0 (gfx1100): " + DIFFERS),
    (RUN + ["--backend", "hip"], {"FAKE_HIP_WRONG": "k_add"}, 1, "Fake Radeon 0 (gfx1100): " + DIFFERS),
    (RUN + ["--backend", "hip", "--gpu-unchecked"], {"FAKE_HIP_WRONG": "k_add"}, 0, ""),
    (RUN + ["-v"], {"FAKE_HIP_WRONG": "k_attention"}, 0, "kernel k_attention (program kv_f16, "),
    (RUN + ["-v"], {"FAKE_HIP_WRONG": "k_moe_route"}, 0, "auto: hip, "),  # which the model does not use
    (RUN + ["-v"], {"FAKE_HIP_FAIL": "hipModuleLaunchKernel:3=719"}, 0, "fails: Fake Radeon 0 (gfx1100): k_norm: hipModuleLaunchKernel"),
]


def run(infer, library, args, env):
    return subprocess.run([infer] + args, text=True, errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=300,
                          env=dict({k: v for k, v in os.environ.items() if not k.startswith("FAKE_HIP")},
                                   OCL_ICD_VENDORS="none", LD_LIBRARY_PATH=library, **env))


def main():
    infer, library = sys.argv[1:]
    passed = failed = 0
    for args, env, status, want in CHECKED:
        p = run(infer, library, args, env)
        ok = p.returncode == status and want in p.stdout
        passed, failed = passed + ok, failed + (not ok)
        if not ok:
            print("FAILED %s %s: status %d, want %d and '%s'\n%s" % (args, env, p.returncode, status, want, p.stdout))
    rows = ROWS + [({"FAKE_HIP_FAIL": "%s=%d" % (call, code)}, text) for call, code, text in FAILS]
    for env, want in rows:
        p = run(infer, library, RUN + ["--backend", "hip", "--gpu-unchecked"], env)
        ok = p.returncode == (1 if want and not want.startswith("warning: ") else 0) and want in p.stdout
        if want and "FAKE_HIP_FAIL" in env and not want.startswith("the "):
            ok = ok and env["FAKE_HIP_FAIL"].split(":")[0] + " failed: " in p.stdout
        passed, failed = passed + ok, failed + (not ok)
        if not ok:
            print("FAILED %s: status %d, want '%s'\n%s" % (env, p.returncode, want, p.stdout))
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
