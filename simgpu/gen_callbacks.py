#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the wrappers through which CUPTI's callbacks see simgpu's driver and runtime functions.

A function that an object file of simgpu defines, and that CUPTI has a callback id for, is renamed to
sim_body_NAME in that object (objcopy, by the list renames.txt); the wrapper NAME tells CUPTI's client, if
there is one, of the call's begin and end (simgpu/callback.h) and calls the body in between.

Output, in the folder given by --out: callbacks.c, renames.txt.
"""

import argparse
import os
import re

import gen_stubs

CBID = re.compile(r"CUPTI_(DRIVER|RUNTIME)_TRACE_CBID_(\w+?)\s*=\s*(\d+)")
PARAMS = re.compile(r"\}\s*(\w+)_params\s*;")

DOMAINS = {
    "DRIVER": ("CUPTI_CB_DOMAIN_DRIVER_API", "sim_driver_names"),
    "RUNTIME": ("CUPTI_CB_DOMAIN_RUNTIME_API", "sim_runtime_names"),
}

# By this launches code that nvcc 13 compiled (crt/device_functions.h, which only nvcc can read).
LAUNCH = gen_stubs.Function("__cudaLaunchKernel", "cudaError_t", gen_stubs.split_params(
    "cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem, cudaStream_t stream"))


def read(include, name):
    path = next(p for p in (os.path.join(folder, name) for folder in include) if os.path.exists(p))
    with open(path, errors="replace") as header:
        return header.read()


def callback_ids(include):
    """[(function, domain, name in CUPTI's enumeration, cbid)]; the runtime's names end in a CUDA version."""
    ids = []
    for header in ("cupti_driver_cbid.h", "cupti_runtime_cbid.h"):
        for domain, name, number in CBID.findall(read(include, header)):
            function = re.sub(r"_v\d{4,5}\Z", "", name) if domain == "RUNTIME" else name
            if name not in ("INVALID", "SIZE", "FORCE_INT"):
                ids.append((function, domain, name, int(number)))
    return ids


def kernel_name(function):
    """The expression for the name of the kernel that FUNCTION launches; None where it launches none."""
    if "Launch" in function.name:
        for param in function.params:
            if param.type in ("CUfunction", "cudaKernel_t"):
                return "sim_function_name((CUfunction)%s)" % param.name
            if (param.type, param.name) == ("const void *", "func"):
                return "sim_kernel_name(%s)" % param.name
    return None


def wrapper(function, domain, name, has_params, is_macro):
    arguments = ", ".join(p.name for p in function.params)
    declared = ", ".join(p.text for p in function.params) or "void"
    out = ["#undef %s" % function.name] if is_macro else []
    out += ["extern __typeof__(%s) sim_body_%s __attribute__((visibility(\"hidden\")));" % ((function.name,) * 2),
            "%s %s(%s)" % (function.result, function.name, declared), "{"]
    if has_params:
        out.append("\t%s_params params = { %s };" % (name, arguments))
    out += ["\t%s result_ = { 0 };" % function.result if function.result not in gen_stubs.STATUS and
            "*" not in function.result else "\t%s result_ = 0;" % function.result,
            "\tstruct sim_call call = { .name = \"%s\", .params = %s, .result = &result_," %
            (function.name, "&params" if has_params else "NULL"),
            "\t\t.domain = %s, .cbid = CUPTI_%s_TRACE_CBID_%s };" % (DOMAINS[domain][0], domain, name), "",
            "\tif (__builtin_expect(!sim_cupti_on, 1))",
            "\t\treturn sim_body_%s(%s);" % (function.name, arguments)]
    if kernel_name(function):
        out.append("\tcall.symbol = %s;" % kernel_name(function))
    out += ["\tsim_call_enter(&call);",
            "\tresult_ = sim_body_%s(%s);" % (function.name, arguments),
            "\tsim_call_exit(&call);",
            "\treturn result_;", "}", ""]
    return "\n".join(out)


def write_names(out, ids):
    """The names of all callback ids, indexed by them: what cuptiGetCallbackName answers."""
    for domain, (_, table) in sorted(DOMAINS.items()):
        rows = sorted((number, function) for function, d, _, number in ids if d == domain)
        out.write("const char *const %s[] = {\n" % table)
        out.write("".join('\t[%d] = "%s",\n' % row for row in rows))
        out.write("};\nconst size_t %s = %d;\n\n" % (table.replace("sim_", "sim_nr_"), rows[-1][0] + 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cc", default="cc", help="compiler that preprocesses the headers")
    parser.add_argument("--include", action="append", required=True, help="folder of CUDA headers (repeat)")
    parser.add_argument("--out", required=True, help="folder for the generated files")
    parser.add_argument("objects", nargs="+", help="object files whose functions are wrapped")
    options = parser.parse_args()

    functions, macros = gen_stubs.read_prototypes(options.cc, options.include)
    functions[LAUNCH.name] = LAUNCH
    ids = callback_ids(options.include)
    # A function that has several stands for the newest.
    newest = {function: row for function, *row in sorted(ids, key=lambda row: row[3])}
    with_params = set(PARAMS.findall(read(options.include, "generated_cuda_meta.h") +
                                     read(options.include, "generated_cuda_runtime_api_meta.h")))
    wrapped = sorted(name for name in gen_stubs.defined_names(options.objects)
                     if name in functions and name in newest and functions[name].result != "void")
    os.makedirs(options.out, exist_ok=True)
    with open(os.path.join(options.out, "callbacks.c"), "w") as out:
        out.write('/* Generated by simgpu/gen_callbacks.py. */\n#include "simgpu/callback.h"\n'
                  '#include "simgpu/cupti_names.h"\n\n'
                  "#pragma GCC visibility push(default)\n#include <cudaProfiler.h>\n#include <cuda_profiler_api.h>\n"
                  "#include <generated_cuda_meta.h>\n#include <generated_cuda_runtime_api_meta.h>\n"
                  "cudaError_t %s(%s);\n#pragma GCC visibility pop\n\n"
                  '#pragma GCC diagnostic ignored "-Wmissing-prototypes"\n'
                  '#pragma GCC diagnostic ignored "-Wdeprecated-declarations"\n\n' %
                  (LAUNCH.name, ", ".join(p.text for p in LAUNCH.params)))
        write_names(out, ids)
        for name in wrapped:
            domain, cupti_name, _ = newest[name]
            has_params = cupti_name in with_params and functions[name].params
            out.write(wrapper(functions[name], domain, cupti_name, has_params, name in macros) + "\n")
    with open(os.path.join(options.out, "renames.txt"), "w") as out:
        out.write("".join("%s sim_body_%s\n" % (name, name) for name in wrapped))


if __name__ == "__main__":
    main()
