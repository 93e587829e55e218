#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write a typed default for every documented CUDA function that no object file of simgpu defines.

The public headers, preprocessed, give each function's exact prototype; RULES below says what its default
does. A function that no rule names is *unsupported*: it is counted, returns its library's not-supported code
and writes nothing. So nothing that simgpu exports ever reports success for a size, handle or pointer that it
did not provide.

Output, in the folder given by --out:
  stubs.c         the defaults, and their counters (struct sim_stub, simgpu.h)
  symbol_table.c  name -> address of all driver functions, and which version of a name belongs to which CUDA
  stubs.txt       one line a function: its name and what its default does, for people
"""

import argparse
import collections
import os
import re
import subprocess
import sys

HEADERS = (
    "cuda.h", "cudaProfiler.h", "cuda_runtime_api.h", "cuda_profiler_api.h",
    "cublas_v2.h", "cublasLt.h", "cublasXt.h", "cudnn.h", "cufft.h", "cufftXt.h",
    "cusolverDn.h", "cusolverSp.h", "cusolverRf.h", "cusolverMg.h", "cusparse.h", "curand.h",
    "nccl.h",
    # cupti.h itself defines old structures that cuda.h has already: its parts, then.
    "cupti_result.h", "cupti_version.h", "cupti_activity.h", "cupti_callbacks.h", "cupti_events.h",
    "cupti_metrics.h", "cupti_profiler_target.h", "cupti_range_profiler.h", "cupti_pcsampling.h",
    "cupti_sass_metrics.h", "cupti_pmsampling.h",
)

# A toolkit need not have them all: a header that is missing leaves its functions to the library itself.
INCLUDES = "".join("#if __has_include(<%s>)\n#include <%s>\n#endif\n" % (h, h) for h in HEADERS)

# Return type -> (success, what an unsupported function returns). cuRAND and NCCL have no code of that
# meaning; theirs are the ones that their documentation gives for a call that cannot be served.
STATUS = {
    "CUresult": ("CUDA_SUCCESS", "CUDA_ERROR_NOT_SUPPORTED"),
    "cudaError_t": ("cudaSuccess", "sim_runtime_error(cudaErrorNotSupported)"),
    "cublasStatus_t": ("CUBLAS_STATUS_SUCCESS", "CUBLAS_STATUS_NOT_SUPPORTED"),
    "cudnnStatus_t": ("CUDNN_STATUS_SUCCESS", "CUDNN_STATUS_NOT_SUPPORTED"),
    "cufftResult": ("CUFFT_SUCCESS", "CUFFT_NOT_SUPPORTED"),
    "cusolverStatus_t": ("CUSOLVER_STATUS_SUCCESS", "CUSOLVER_STATUS_NOT_SUPPORTED"),
    "cusparseStatus_t": ("CUSPARSE_STATUS_SUCCESS", "CUSPARSE_STATUS_NOT_SUPPORTED"),
    "curandStatus_t": ("CURAND_STATUS_SUCCESS", "CURAND_STATUS_INTERNAL_ERROR"),
    "ncclResult_t": ("ncclSuccess", "ncclInvalidUsage"),
    "CUptiResult": ("CUPTI_SUCCESS", "CUPTI_ERROR_NOT_SUPPORTED"),
}

# Names that come from names.txt because no header of the toolkit declares them: prefix -> not-supported code.
# cuFile's code is the first half of a structure whose second, the driver's code, is 0.
UNTYPED = (("nvml", 3), ("cusparseLt", 10), ("nccl", 5), ("cupti", 27), ("cuFile", 5005))

# Refusals that callers count on, so nobody is told: many a real board does not support an NVML query, and
# NVRTC asks for the driver's private tables but works without them (it crashes, though, when the function
# itself is missing).
EXPECTED = re.compile(r"nvml\w+|cu(da)?GetExportTable")

# What a default may do.
NOOP = "no-op"              # succeed: nothing to do where kernels compute nothing
COMPUTE = "compute"         # succeed, and count a launch on the handle's stream
OBJECT = "object"           # succeed with a fresh opaque object in the first output
RELEASE = "release"         # succeed and free an opaque object
PER_THREAD = "per-thread"   # the same function on the per-thread default stream
UNSUPPORTED = "unsupported"

# First match wins. A function of NOOP or COMPUTE with an output that nobody writes is unsupported all the
# same.
RULES = tuple((re.compile(pattern + r"\Z"), action) for pattern, action in (
    # Driver and runtime: hints, settings and notices without a visible effect on memory.
    (r"cu(da)?Mem(Prefetch|Advise)\w*", NOOP),
    (r"cu(da)?Func(Load|Set)\w*", NOOP),
    (r"cu(da)?(Kernel|Module|Library)Set\w*", NOOP),
    (r"cu(da)?Profiler(Start|Stop)", NOOP),
    (r"cu(da)?(Ctx|Device|Thread)(Set|Reset)\w*", NOOP),
    (r"cu(da)?(Ctx|Device)(Enable|Disable)PeerAccess", NOOP),
    (r"cu(da)?DeviceFlushGPUDirectRDMAWrites", NOOP),
    (r"cu(da)?Stream(Set|Copy)Attribut\w*", NOOP),
    (r"cu(da)?StreamAttachMemAsync", NOOP),
    (r"cu(da)?Graph(Exec)?\w*Set(Params|Enabled|Attribute)\w*", NOOP),
    (r"cu(da)?GraphUpload", NOOP),
    (r"cuTensorMap(Encode|Replace)\w*", NOOP),

    (r"cublas(Lt)?(Logger|SetLogger)\w*|cublasXerbla", NOOP),
    (r"cublasSet(Fixed|Emul)\w*|cublasLtHeuristicsCacheSetCapacity", NOOP),
    (r"cublas(Lt|Xt|Get|Set)\w*", UNSUPPORTED),
    (r"cublas\w+", COMPUTE),

    (r"cudnn\w+VersionCheck", NOOP),
    (r"cudnnCreate\w+Descriptor", OBJECT),
    (r"cudnnDestroy\w+", RELEASE),
    (r"cudnnSet\w+", NOOP),
    (r"cudnnGet\w+(Workspace|ReserveSpace)Size(_v8)?", NOOP),
    (r"cudnn(Get|Query|Find|Create|Backend|Derive|BuildRNN|\w+Get)\w*", UNSUPPORTED),
    (r"cudnn\w+", COMPUTE),

    (r"cusolverDn(Create(Params|\w+Info)|IRSParamsCreate|IRSInfosCreate)", OBJECT),
    (r"cusolverDn(Destroy(Params|\w+Info)|IRSParamsDestroy|IRSInfosDestroy)", RELEASE),
    (r"cusolverDn\w*Set\w*|cusolverDnLogger\w*", NOOP),
    (r"cusolver(Sp|Rf|Mg|Get|DnIRSInfos|DnIRSParams|DnGet|DnX\w+Get)\w*", UNSUPPORTED),
    (r"cusolverDn\w+", COMPUTE),

    (r"cusparse(Create\w+Info|\w+_createDescr|CreateColorInfo)", OBJECT),
    (r"cusparse(Destroy\w+Info|\w+_destroyDescr|DestroyColorInfo)", RELEASE),
    (r"cusparse(Logger|Set)\w*", NOOP),
    (r"cusparseCreateIdentityPermutation", COMPUTE),
    (r"cusparse(Get|Create|Destroy|\w+Get|\w+_getNumProducts)\w*", UNSUPPORTED),
    (r"cusparse\w+", COMPUTE),

    (r"curandCreateGenerator(Host)?", OBJECT),
    (r"curandDestroyGenerator", RELEASE),
    (r"curand(Set|Generate)\w*", NOOP),

    (r"ncclResetDebugInit", NOOP),

    # CUPTI: what records of device activity would need is accepted; none ever come (cupti_activity.c).
    (r"cuptiActivity(Enable|Flush|Configure)\w*", NOOP),
    (r"cupti(Enable|Disable)KernelReplayMode|cuptiSetThreadIdType|cuptiActivitySetAttribute", NOOP),
))

# Outputs by parameter name, for functions that NOOP or COMPUTE covers. docs/simulated-libraries.md has the
# model of workspace sizes: elements where the library counts elements, bytes where it counts bytes.
INTEGER = re.compile(r"(unsigned\s+)?(int|size_t|int32_t|int64_t|uint32_t|uint64_t|long|cusolver_int_t)")
SIZE = re.compile(r"lwork(_bytes)?|p?bufferSize\w*|workSize|workspaceInBytes\w*|workspaceSize\w*|sizeInBytes|"
                  r"reserveSpaceSize\w*", re.I)
DEVICE = re.compile(r"p|b[sc]c\w*|bsr\w*|c[so][cro]\w*|coloring|reordering|(d_|dev)info|(dev)?infoArray|"
                    r"d?ipiv|devIpiv|nnzPerRow(Col)?|outputPtr|mantissaBitCount|valueSize", re.I)
RESULT = re.compile(r"result|info|ncolors|h_meig|meig(64)?|h_err_sigma|h_R_nrmF|niters?|iter|"
                    r"nnzTotalDevHostPtr|nnz[A-Z]?|bnnz\w*")
PIVOT = re.compile(r"position")
DATA = re.compile(r"(struct\s+)?(void|float|double|cu(Float|Double)?Complex|cuDoubleComplex|__half|char|"
                  r"signed char|unsigned char|unsigned short|short|uint8_t|int8_t|CUtensorMap|"
                  r"CUpti_Activity\w+Config)")

Param = collections.namedtuple("Param", "text type name pointee")
Function = collections.namedtuple("Function", "name result params")


def parse_param(text):
    """One parameter: its type, its name, and what a program can read through it afterwards, or None."""
    text = " ".join(text.split())
    callback = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", text)
    if callback:
        return Param(text, text, callback.group(1), None)
    head, name, array = re.match(r"(.*?)(\w+)\s*((?:\[\s*\w*\s*\])*)\Z", text).groups()
    ctype = head.strip() + ("*" if array else "")
    pointee = None
    if ctype.endswith("*"):
        inner = ctype[:-1].strip()
        if not re.search(r"\bconst\Z", inner) and not (inner.startswith("const ") and "*" not in inner):
            pointee = inner
    return Param(text, ctype, name, pointee)


def split_params(text):
    out, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += char in "([" and 1 or char in ")]" and -1 or 0
        if char == "," and not depth:
            out.append(text[start:i])
            start = i + 1
    out.append(text[start:])
    return [p for p in (parse_param(t) for t in out if t.strip()) if p.text != "void"]


def declarations(text):
    """The top-level declarations of preprocessed C: bodies in braces are left out."""
    depth, start = 0, 0
    for match in re.finditer(r"[{};]", text):
        char = match.group()
        if char == "{":
            if not depth:
                head = text[start:match.start()]
            depth += 1
        elif char == "}":
            depth -= 1
            if not depth:
                # After a function body a new declaration begins; after a struct body this one goes on.
                start = match.end() if head.rstrip().endswith(")") else start
        elif not depth:
            yield text[start:match.start()]
            start = match.end()


PROTOTYPE = re.compile(r"\s*(?:extern\s+)?([\w\s*]+?)\b((?:__)?(?:cu[A-Z]|cuda|cublas|cudnn|cufft|cusparse|"
                       r"cusolver|curand|nccl|nvml|cupti)\w+)\s*\((.*)\)\s*\Z", re.S)


def read_prototypes(cc, include):
    """Preprocess the public headers; returns {name: Function} and the set of names that are macros."""
    source = "#define __CUDA_API_VERSION_INTERNAL 1\n" + INCLUDES
    base = cc.split() + [flag for folder in include for flag in ("-isystem", folder)] + ["-x", "c", "-E"]
    text = subprocess.run(base + ["-P", "-"], input=source, stdout=subprocess.PIPE, check=True,
                          universal_newlines=True).stdout
    macros = subprocess.run(base + ["-dM", "-"], input=source, stdout=subprocess.PIPE, check=True,
                            universal_newlines=True).stdout
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|__extension__|\b__inline__\b", "", text)
    functions = {}
    for declaration in declarations(text):
        if "typedef" in declaration or "static" in declaration:
            continue
        match = PROTOTYPE.match(declaration)
        if match:
            result, name, params = match.groups()
            functions[name] = Function(name, " ".join(result.split()), split_params(params))
    return functions, set(re.findall(r"#define (\w+)", macros))


def defined_names(objects):
    out = subprocess.run(["nm", "-g", "--defined-only"] + objects, stdout=subprocess.PIPE, check=True,
                         universal_newlines=True).stdout
    return {line.split()[2] for line in out.splitlines() if len(line.split()) == 3}


def outputs(function):
    """(param, statement) for what the program reads back; statement None: nobody knows what to write.

    Matrices and the integers of DEVICE (pivots, indices) are device memory, which reads 0 without our doing.
    Any other integer might be a size on the host: not knowing it makes the function unsupported.
    """
    for param in function.params:
        if param.pointee is None:
            continue
        if INTEGER.fullmatch(param.pointee) and SIZE.fullmatch(param.name):
            if function.name.startswith("cudnn"):
                value = "0"
            elif INTEGER.fullmatch(param.pointee).group(2) == "int":
                value = "SIM_WORKSPACE_ELEMENTS"
            else:
                value = "SIM_WORKSPACE_BYTES"
            statement = "if (%s)\n\t\t*%s = %s;" % (param.name, param.name, value)
            yield param, "sim_answered_zero();\n\t" + statement if value == "0" else statement
        elif INTEGER.fullmatch(param.pointee) and PIVOT.fullmatch(param.name):
            yield param, "if (%s && sim_pointer_device(%s) < 0)\n\t\t*%s = -1;" % ((param.name,) * 3)
        elif RESULT.fullmatch(param.name):
            size = "sizeof(*%s)" % param.name
            if param.pointee == "void":
                size = "sim_library_type_bytes(%s)" % next(
                    (p.name for p in function.params if re.match(r"result_?[tT]ype", p.name)), "CUDA_R_32F")
            yield param, "sim_library_result(%s, %s);" % (param.name, size)
        elif "[" in param.text and DATA.fullmatch(param.pointee.rstrip(" *")):
            continue        # an array of device pointers
        elif not (DATA.fullmatch(param.pointee) or
                  (INTEGER.fullmatch(param.pointee) and DEVICE.fullmatch(param.name))):
            yield param, None


def may_return_something(function):
    """Whether success would promise a value to the caller, so that the refusal is worth a line."""
    if function.result not in STATUS and function.result != "void":
        return True
    return any(p.pointee is not None and not DATA.fullmatch(p.pointee) for p in function.params)


def decide(function, defined):
    """The default of one function: (action, statements, result expression)."""
    success, refusal = STATUS.get(function.result, (None, None))
    plain = re.sub(r"_pt[sd][sz]\Z", "", function.name)
    if plain != function.name and plain in defined:
        args = ", ".join("%s ? %s : %s" % (p.name, p.name, "CU_STREAM_PER_THREAD")
                         if p.type in ("CUstream", "cudaStream_t") else p.name for p in function.params)
        if plain + "_ptds" == function.name:
            return PER_THREAD, ["sim_uses_thread_stream++;", "%s result = %s(%s);" % (function.result, plain, args),
                                "sim_uses_thread_stream--;"], "result"
        return PER_THREAD, [], "%s(%s)" % (plain, args)
    action = next((act for pattern, act in RULES if pattern.match(function.name)), UNSUPPORTED)
    if action in (NOOP, COMPUTE) and (success or function.result == "void"):
        writes = list(outputs(function))
        if all(statement for _, statement in writes):
            statements = [statement for _, statement in writes]
            first = function.params[0] if function.params else None
            if action == COMPUTE and first and re.match(r"\w+Handle_t\Z", first.type):
                statements.insert(0, "sim_library_launch(%s);" % first.name)
            return action, statements, success or ""
    if action == OBJECT and success and function.params[0].pointee:
        return action, ["*%s = sim_library_opaque();" % function.params[0].name], success
    if action == RELEASE and success and len(function.params) == 1:
        return action, ["free((void *)%s);" % function.params[0].name], success
    if function.result == "void":
        return UNSUPPORTED, [], ""
    return UNSUPPORTED, [], refusal or "(%s){ 0 }" % function.result


def write_stubs(path, functions, untyped, macros, defined):
    rows, bodies = [], []
    for name in sorted(set(functions) | set(untyped)):
        if name in functions:
            function = functions[name]
            action, statements, result = decide(function, defined)
            params = ", ".join(p.text for p in function.params) or "void"
            invent = action == UNSUPPORTED and may_return_something(function)
            head = "%s %s(%s)" % (function.result, name, params)
        else:
            action, statements, result, invent = UNSUPPORTED, [], str(untyped[name]), True
            head = "SIM_EXPORT int %s(void);\nint %s(void)" % (name, name)
        invent = invent and not EXPECTED.fullmatch(name)
        lines = ["sim_stub_called(&sim_stubs[%d]);" % len(rows)] + statements
        if result:
            lines.append("return %s;" % result)
        undef = "#undef %s\n" % name if name in macros else ""
        bodies.append("%s%s\n{\n\t%s\n}\n" % (undef, head, "\n\t".join(lines)))
        rows.append((name, action, invent))
    with open(path, "w") as out:
        out.write('/* Generated by simgpu/gen_stubs.py. */\n'
                  '#include "simgpu/library.h"\n#include "simgpu/stub.h"\n\n')
        out.write('#include "simgpu/answers.h"\n#include <stdlib.h>\n\n#pragma GCC visibility push(default)\n')
        out.write(INCLUDES)
        out.write("#pragma GCC visibility pop\n\n"
                  '#pragma GCC diagnostic ignored "-Wmissing-prototypes"\n'      # some are declared name()
                  '#pragma GCC diagnostic ignored "-Wunused-parameter"\n'
                  '#pragma GCC diagnostic ignored "-Wdeprecated-declarations"\n\n')
        out.write("struct sim_stub sim_stubs[] = {\n")
        for name, action, invent in rows:
            flags = [str(flag).lower() for flag in (invent, action == UNSUPPORTED)]
            out.write('\t{ "%s", 0, %s, %s },\n' % (name, *flags))
        out.write("};\nconst size_t sim_nr_stubs = %d;\n" % len(rows))
        out.write("struct simgpu_unsupported sim_stub_report[%d + SIM_REFUSALS];\n\n" % len(rows))
        out.write("\n".join(bodies))
    return rows


def versions(include):
    """(plain, since, symbol): the function that PLAIN stands for in programs written for CUDA SINCE or newer.

    cudaTypedefs.h has one typedef for each version of a function's interface, in order: the first is the
    plain name, the next NAME_v2 and so on. Where cuda.h maps the plain name to something else, that is the
    newest; unless that is a function with typedefs of its own: the driver goes by the name that is asked for.
    """
    def read(name):
        path = next(p for p in (os.path.join(folder, name) for folder in include) if os.path.exists(p))
        with open(path, errors="replace") as header:
            return header.read()

    since = collections.defaultdict(set)
    for name, version in re.findall(r"\*PFN_(cu[A-Z]\w*?)_v(\d+)\)", read("cudaTypedefs.h")):
        since[name].add(int(version))
    cuda_h = read("cuda.h")
    newest = dict(re.findall(r"#\s*define\s+(cu[A-Z]\w*)\s+(cu[A-Z]\w*)\s*$", cuda_h, re.M))
    newest.update(re.findall(r"#\s*define\s+(cu[A-Z]\w*)\s+__CUDA_API_PT[DS][SZ]\((cu[A-Z]\w*)\)", cuda_h))
    rows = []
    for name in sorted(since):
        names = [name] + ["%s_v%d" % (name, i) for i in range(2, len(since[name]) + 1)]
        rows += [(name, version, symbol) for version, symbol in zip(sorted(since[name]), names)]
        if newest.get(name, names[-1]) != names[-1] and newest[name] not in since:
            rows.append((name, max(since[name]) + 1, newest[name]))
    return rows


def write_symbols(path, names, rows):
    names = sorted(n for n in names if re.match(r"cu[A-Z]", n))
    known = set(names)
    rows = [row for row in rows if row[2] in known]
    with open(path, "w") as out:
        out.write('/* Generated by simgpu/gen_stubs.py. */\n#include "simgpu/stub.h"\n\n')
        out.write("".join("extern void sym_%s(void) __asm__(\"%s\");\n" % (name, name) for name in names))
        out.write("\nconst struct sim_symbol sim_symbols[] = {\n")
        out.write("".join('\t{ "%s", sym_%s },\n' % (name, name) for name in names))
        out.write("};\nconst size_t sim_nr_symbols = %d;\n" % len(names))
        out.write("\nconst struct sim_symbol_version sim_symbol_versions[] = {\n")
        out.write("".join('\t{ "%s", %d, "%s" },\n' % row for row in rows))
        out.write("};\nconst size_t sim_nr_symbol_versions = %d;\n" % len(rows))


def read_names(path):
    with open(path) as lines:
        names = [line.split("#")[0].strip() for line in lines]
    out = {}
    for name in filter(None, names):
        code = next((code for prefix, code in UNTYPED if name.startswith(prefix)), None)
        if code is None:
            sys.exit("gen_stubs.py: '%s' in %s: UNTYPED has no prefix for it, add one" % (name, path))
        out[name] = code
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cc", default="cc", help="compiler that preprocesses the headers")
    parser.add_argument("--include", action="append", required=True, help="folder of CUDA headers (repeat)")
    parser.add_argument("--names", required=True, help="names that no header declares, one a line")
    parser.add_argument("--out", required=True, help="folder for the generated files")
    parser.add_argument("objects", nargs="+", help="object files whose functions need no default")
    options = parser.parse_args()

    functions, macros = read_prototypes(options.cc, options.include)
    defined = defined_names(options.objects)
    functions = {n: f for n, f in functions.items() if n not in defined}
    untyped = {n: c for n, c in read_names(options.names).items() if n not in defined and n not in functions}
    os.makedirs(options.out, exist_ok=True)
    rows = write_stubs(os.path.join(options.out, "stubs.c"), functions, untyped, macros, defined)
    write_symbols(os.path.join(options.out, "symbol_table.c"), set(functions) | defined,
                  versions(options.include))
    with open(os.path.join(options.out, "stubs.txt"), "w") as out:
        out.write("".join("%s %s\n" % row[:2] for row in rows))


if __name__ == "__main__":
    main()
