# SPDX-License-Identifier: MIT
# vramtrace: one non-recursive Makefile. `make help` lists the targets; CONTRIBUTING.md says how to add files.

O ?= build
PREFIX ?= /usr/local
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/vramtrace
ifndef VENV
VENV := $(CACHE)/env-$(shell sha256sum tests/requirements.txt | cut -c1-12)
endif
PYTHON := $(VENV)/bin/python
.DEFAULT_GOAL := all
MAKEFLAGS += -j$(shell nproc)
include rules.mk

# ---- set-up: Debian packages, probes, CUDA headers, the Python environment -------------------
# Make includes $(O)/config.mk, so it makes that file first. Goals that promise to set up everything install
# the packages before it; those that need the Python environment have that before, too: its wheels bring headers.
GOALS := $(or $(MAKECMDGOALS),all)
PYTHON_GOALS := demo screenshots thresholds test test-more test-all test-driver test-serving test-gpu test-aarch64 bench
SETUP_GOALS := $(PYTHON_GOALS) setup check unit
QUICK_GOALS := help clean uninstall venv

$(O)/config.key: FORCE
	$(call remember,$(CC) $(CUDA_HOME))

$(O)/packages.ok: setup/packages.txt
	$(Q)setup/packages.sh
	$(Q)mkdir -p $(@D) && touch $@

$(VENV)/.complete:
	$(Q)setup/venv.sh '$(VENV)' tests/requirements.txt

CONFIGURE := setup/configure.sh setup/cuda_files.sh setup/cuda_files.txt $(wildcard checks/have_*.c checks/have_*.cc)

$(O)/config.mk: $(O)/config.key $(CONFIGURE)
	$(Q)CC='$(CC)' VENV='$(VENV)' setup/configure.sh '$(O)' >$@

ifneq ($(filter $(SETUP_GOALS),$(GOALS)),)
$(O)/config.mk: $(O)/packages.ok
endif
ifneq ($(filter $(PYTHON_GOALS),$(GOALS)),)
$(O)/config.mk: | $(VENV)/.complete
$(VENV)/.complete: | $(O)/packages.ok
endif
ifneq ($(filter-out $(QUICK_GOALS),$(GOALS)),)
include $(O)/config.mk
endif
FLAGS_KEY := $(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(INSTRUMENT) $(CUDA_CFLAGS)

# The version, and the commit that git knows: of two objects alone, so that a commit compiles little anew.
VERSION_FLAGS := $(shell setup/version.sh)
VERSIONED := $(O)/analyzer/main.o $(foreach kind,preload sanitized-thread sanitized-address,$(O)/$(kind)/libinterpose/recorder_version.o)

$(O)/version.key: FORCE
	$(call remember,$(VERSION_FLAGS))

$(VERSIONED): $(O)/version.key
$(VERSIONED): override CPPFLAGS += $(VERSION_FLAGS)

## all: build the vramtrace command, its preload library and the simulated GPU (default)
all: $(O)/vramtrace $(O)/libinterpose.so $(O)/simgpu/libcuda.so.1 $(O)/cuda.flags

## setup: install missing Debian packages (as root, else say which) and find the CUDA headers
setup: $(O)/packages.ok

## venv: make the Python environment of demo and tests; VENV= names another (about 3 GB to download, once)
venv: $(VENV)/.complete

# ---- tracefmt: the format, its writer and reader ---------------------------------------------
TFMT_SRC := $(wildcard tracefmt/*.c)

$(O)/libtracefmt.a: $(TFMT_SRC:%.c=$(O)/%.o)

include tracefmt/tracefmt.mk

# The recorder has its own copy of the writer: hidden, initial-exec TLS, not instrumented (but for `sanitized`).
$(O)/preload/libtracefmt.a: $(TFMT_SRC:%.c=$(O)/preload/%.o)

# ---- libinterpose: preloaded into the traced program -----------------------------------------
IP_SRC := $(wildcard libinterpose/*.c)

# DT_NEEDED is the C library alone (checks/exports.sh): zstd and the unwinder of libgcc are linked in.
$(O)/libinterpose.so: $(IP_SRC:%.c=$(O)/preload/%.o) $(O)/preload/libtracefmt.a $(O)/preload/exports.map
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -shared -Wl,-soname,libinterpose.so -o $@ $(filter %.o %.a,$^) $(LDFLAGS) \
		$(PRELOAD_LDFLAGS) -Wl,--version-script=$(O)/preload/exports.map \
		-l:libzstd.a -lpthread -ldl

# What is exported: the rows of hooks.def, and what exports.txt adds. The linker hides everything else.
$(O)/exports.wanted: libinterpose/exports.txt libinterpose/hooks.def
	$(Q)mkdir -p $(@D)
	$(Q){ sed -n 's/^[A-Za-z_].*/&/p' $<; sed -n 's/^\(DRIVER\|RUNTIME\)(\([A-Za-z0-9_]*\),.*/\2/p' \
		libinterpose/hooks.def; } | LC_ALL=C sort >$@

$(O)/preload/exports.map: $(O)/exports.wanted
	$(Q)mkdir -p $(@D)
	$(Q){ echo '{ global:'; sed 's/$$/;/' $<; echo 'local: *; };'; } >$@

# What the analyzer is made of; fragments name it, too.
AN_SRC := $(wildcard analyzer/*.c analyzer/*/*.c)
AN_LIBS := -lzstd -lz -ldw -lelf -ljson-c -lsqlite3 -lncursesw -ltinfo -lstdc++ -lm -lpthread -ldl

# ---- simgpu: the simulated GPU, by its own fragment; other parts may have one, too -----------
include $(wildcard simgpu/*.mk analyzer/*.mk setup/*.mk tests/*/*.mk)

# ---- analyzer: the vramtrace command ---------------------------------------------------------
$(O)/libanalyzer.a: $(patsubst %.c,$(O)/%.o,$(filter-out analyzer/main.c,$(AN_SRC))) $(O)/analyzer/recording/toml.o

$(O)/vramtrace: $(O)/analyzer/main.o $(O)/libanalyzer.a $(O)/libtracefmt.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(INSTRUMENT) -o $@ $^ $(LDFLAGS) $(AN_LIBS)

# ---- examples: C ones are compiled, as their users would -------------------------------------
CUDA_PROGRAM = $(CUDA_CFLAGS) $(CUDART) -Wl,-rpath,$(dir $(CUDART))
EXAMPLES := $(patsubst %.c,$(O)/%,$(wildcard examples/*.c))

# They link the shared CUDA runtime that came with the headers, as nvcc -cudart shared does.
$(O)/examples/%: examples/%.c $(O)/flags.key
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) -O1 -g -fno-inline $(WARN) -o $@ $< $(CUDA_PROGRAM)

examples: $(EXAMPLES)

## demo: train a small GPT on the simulated GPU (on a real one if there is one), record it, print the report
demo: all $(VENV)/.complete
	$(Q)setup/demo.sh '$(O)' '$(PYTHON)'

## screenshots: pictures of the page of `html` for docs/pictures, of an example on the simulated GPU
screenshots: all $(VENV)/.complete
	$(Q)'$(PYTHON)' setup/screenshots.py '$(O)'

# ---- tests -----------------------------------------------------------------------------------
# One program per tests/unit/test_*.c: the trace library and the analyzer. Tests of the parts that are loaded into
# programs stand in folders with a fragment of their own, which adds them to `unit`.
UNIT := $(patsubst tests/%.c,$(O)/%,$(wildcard tests/unit/test_*.c))

$(O)/unit/%: $(O)/tests/unit/%.o $(O)/libanalyzer.a $(O)/libtracefmt.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(INSTRUMENT) -o $@ $< $(O)/libanalyzer.a $(O)/libtracefmt.a \
		$(LDFLAGS) -lcmocka $(AN_LIBS) -ldl

## unit: unit tests (cmocka)
unit: $(UNIT)
	$(if $(HAVE_CMOCKA),,$(error cmocka is missing: install libcmocka-dev, or let root run 'make setup'))
	$(Q)printf '%s\n' $(UNIT) | xargs -P $(shell nproc) -n 1 tests/unit_test.sh

## check: unit tests and checks of the tree (exports, layers, tables of the documents); needs no PyTorch, no environment
check: all examples unit
	$(Q)for c in checks/*.sh; do O='$(O)' $$c || exit 1; done

# How tests compile C programs that use CUDA.
$(O)/cuda.flags: FORCE
	$(call remember,$(CUDA_PROGRAM))

PYTEST = VRAMTRACE_BUILD='$(abspath $(O))' $(PYTHON) -m pytest
# Files of tests run side by side, on up to four processors: some take 4 GiB of memory. PYTEST_FLAGS='-n 0': one by one.
# The second tier has no tests that need a processor to themselves, and waits a third of its time: it runs four at a time.
PYTEST_MANY = $(PYTEST) --dist loadfile -n $(shell echo $$(($(shell nproc) < 4 ? $(shell nproc) : 4)))
PYTEST_MORE = $(PYTEST) --dist loadfile -n 4

# An interpreter that Debian 12 and Ubuntu do not have; without it, its tests are skipped.
PYTHON314 := $(CACHE)/python314-$(shell cat setup/python314.sh setup/apt_apart.sh | sha256sum | cut -c1-12)

$(PYTHON314)/.complete: | $(O)/packages.ok
	$(Q)setup/python314.sh '$(@D)' || echo 'vramtrace: its tests are skipped' >&2

# PyTorch for it, for the long tests alone.
TORCH314 := $(CACHE)/torch314-$(shell cat setup/torch314.sh tests/requirements.txt | sha256sum | cut -c1-12)

$(TORCH314)/.complete: | $(VENV)/.complete
	$(Q)setup/torch314.sh '$(@D)' $(PYTHON) || echo 'vramtrace: its tests are skipped' >&2

## test: set up everything, then run the tests that show each part at work (ten minutes on 2 cores); PYTEST_FLAGS=
test: check package $(VENV)/.complete $(PYTHON314)/.complete
	$(Q)$(PYTEST_MANY) -m 'not more and not slow and not gpu' $(PYTEST_FLAGS) tests

## test-more: the tests that `test` leaves out, longer ones and more cases of the same (tests/more.txt)
test-more: all package $(VENV)/.complete $(PYTHON314)/.complete
	$(Q)$(PYTEST_MORE) -m 'more and not slow and not gpu' $(PYTEST_FLAGS) tests

## test-all: test, test-more, the long runs and further cases (tests/all.txt), test-driver, test-serving and test-aarch64
test-all: check package $(VENV)/.complete $(PYTHON314)/.complete $(TORCH314)/.complete test-driver test-serving test-aarch64
	$(Q)$(PYTEST_MANY) -m 'not gpu' $(PYTEST_FLAGS) tests

## test-driver: on NVIDIA's own driver libraries, without a GPU (fetches them, CUDA's wheels and two PyTorch for CUDA 12)
test-driver: all $(VENV)/.complete
	$(Q)VRAMTRACE_DRIVER_CACHE='$(CACHE)' $(PYTEST) $(PYTEST_FLAGS) tests/driver

# An inference engine, which brings its own PyTorch.
SERVING := $(CACHE)/env-$(shell sha256sum tests/requirements-serving.txt | cut -c1-12)

$(SERVING)/.complete: | $(O)/packages.ok
	$(Q)setup/venv.sh '$(@D)' tests/requirements-serving.txt

## test-serving: vLLM on the simulated GPU (one more environment, 9 GB on disk)
test-serving: all $(VENV)/.complete $(SERVING)/.complete
	$(Q)VRAMTRACE_SERVING_PYTHON='$(SERVING)/bin/python' $(PYTEST) $(PYTEST_FLAGS) tests/e2e/test_serving.py

## test-matrix: a smoke set with the oldest and the newest PyTorch, names with one before (three environments, 17 GB)
test-matrix: all examples
	$(Q)tests/matrix/run.sh '$(abspath $(O))' '$(CACHE)'

# The other architecture: the same Makefile with a cross compiler, in a build folder of its own.
AARCH64 = $(CACHE)/aarch64-$(shell { cat setup/aarch64.sh setup/apt_apart.sh; grep -e -dev setup/packages.txt; } | sha256sum | cut -c1-12)

$(AARCH64)/.complete: setup/packages-aarch64.txt
	$(Q)setup/packages.sh setup/packages-aarch64.txt
	$(Q)setup/aarch64.sh '$(@D)'

## test-aarch64: cross-build for aarch64; run unit tests and those of lookups under qemu (installs compiler and qemu)
test-aarch64: $(AARCH64)/.complete $(VENV)/.complete
	+$(Q)MAKEFLAGS= $(MAKE) --no-print-directory V='$(V)' CI='$(CI)' O='$(O)/aarch64' VENV='$(VENV)' \
		CC='aarch64-linux-gnu-gcc --sysroot=$(AARCH64)/root' AR=aarch64-linux-gnu-ar OBJCOPY=aarch64-linux-gnu-objcopy \
		EMULATOR='qemu-aarch64-static -L $(AARCH64)/root' emulated

# simgpu is left out: it is for machines without a GPU, and qemu's processes share memory in other ways than real ones.
emulated: $(O)/vramtrace $(O)/libinterpose.so $(O)/cuda.flags $(UNIT) $(PYFRAMES_UNIT) $(PRELOAD_UNIT)
	$(Q)for t in $(UNIT) $(PYFRAMES_UNIT) $(PRELOAD_UNIT); do echo "  TEST  $$t"; timeout 300 $(EMULATOR) $$t || exit 1; done
	$(Q)CC='$(CC)' VRAMTRACE_EMULATOR='$(EMULATOR)' $(PYTEST) $(PYTEST_FLAGS) \
		tests/preload/test_lookup.py tests/preload/test_lookup_all.py tests/preload/test_scenes.py

## sanitized: the recorder once more, instrumented, for the tests that preload it into instrumented programs
# (tests/preload/sanitized.mk)

## test-gpu: walk through what only a GPU can show, in half an hour, report in O/walk; without one, says so and succeeds
test-gpu: all examples $(VENV)/.complete
	$(Q)if '$(O)/vramtrace' gpu; then \
		$(PYTHON) tests/gpu/walk.py --build '$(O)' --output '$(O)/walk' $(WALK_FLAGS); \
	else echo 'test-gpu: no NVIDIA GPU here, nothing to test'; fi

## thresholds: move each threshold by a quarter and list which verdicts change (half an hour); THRESHOLDS_FLAGS='--room oom -v'
thresholds: all $(VENV)/.complete
	+$(Q)MAKEFLAGS= $(MAKE) --no-print-directory V='$(V)' O='$(O)/thresholds' VENV='$(VENV)' CC='$(CC)' \
		CPPFLAGS=-DVT_MOVE_THRESHOLDS '$(O)/thresholds/vramtrace'
	$(Q)VRAMTRACE_BUILD='$(abspath $(O))' $(PYTHON) tests/thresholds.py --moving '$(O)/thresholds/vramtrace' \
		--jobs '$(O)/thresholds/jobs' $(THRESHOLDS_FLAGS)

## bench: the benchmarks of bench/
bench: all $(VENV)/.complete
	$(Q)export VRAMTRACE_BUILD='$(abspath $(O))'; \
		for b in $(wildcard bench/bench_*.py); do $(PYTHON) $$b || exit 1; done

# ---- install, uninstall: one list, of SOURCE:DESTINATION:MODE --------------------------------
MAN_SRC := $(wildcard docs/man/*.1.scd)
MAN := $(if $(shell command -v scdoc),$(MAN_SRC:docs/man/%.scd=$(O)/man/%))
LIBDIR := $(PREFIX)/lib/vramtrace
# Where each shell looks for the completion of a command, below share/, and by which name.
COMPLETION_bash := bash-completion/completions/vramtrace
COMPLETION_zsh := zsh/site-functions/_vramtrace
COMPLETION_fish := fish/vendor_completions.d/vramtrace.fish
SHELLS := bash zsh fish
INSTALLED := $(O)/vramtrace:$(PREFIX)/bin/vramtrace:755 \
	$(O)/libinterpose.so:$(LIBDIR)/libinterpose.so:755 \
	$(O)/simgpu/libsimgpu.so:$(LIBDIR)/simgpu/libsimgpu.so:755 \
	$(O)/libtracefmt.so.$(TFMT_ABI):$(PREFIX)/lib/libtracefmt.so.$(TFMT_ABI):755 \
	$(O)/libtracefmt.a:$(PREFIX)/lib/libtracefmt.a:644 $(O)/tracefmt.pc:$(PREFIX)/lib/pkgconfig/tracefmt.pc:644 \
	tracefmt/tracefmt.h:$(PREFIX)/include/tracefmt/tracefmt.h:644 \
	$(foreach p,$(SIM_PYTHON),$(p):$(p:$(O)/%=$(LIBDIR)/%):644) \
	python/vramtrace/SKILL.md:$(PREFIX)/share/vramtrace/SKILL.md:644 \
	$(foreach s,$(wildcard docs/schemas/*.json),$(s):$(PREFIX)/share/vramtrace/schemas/$(notdir $(s)):644) \
	$(foreach s,$(SHELLS),$(O)/completion/$(s):$(PREFIX)/share/$(COMPLETION_$(s)):644) \
	$(foreach m,$(MAN),$(m):$(PREFIX)/share/man/man1/$(notdir $(m)):644)
# The simulated driver and NVML go by the names that programs open.
INSTALLED_LINKS := $(addprefix $(LIBDIR)/simgpu/,libcuda.so.1 libcuda.so libnvidia-ml.so.1)

$(O)/man/%: docs/man/%.scd
	@mkdir -p $(@D)
	$(call say,MAN,$@)
	$(Q)scdoc <$< >$@

$(O)/completion/%: $(O)/vramtrace
	@mkdir -p $(@D)
	$(Q)$< completion $* >$@

## man: manual pages (needs scdoc)
man: $(MAN)

## install: install below PREFIX (/usr/local), staged in DESTDIR
install: all man $(O)/tracefmt.pc $(SHELLS:%=$(O)/completion/%)
	$(Q)set -e; for f in $(INSTALLED); do \
		IFS=:; set -- $$f; unset IFS; install -D -m $$3 $$1 '$(DESTDIR)'$$2; done
	$(Q)for l in $(INSTALLED_LINKS); do ln -sf libsimgpu.so '$(DESTDIR)'$$l; done
	$(Q)ln -sf libtracefmt.so.$(TFMT_ABI) '$(DESTDIR)$(PREFIX)/lib/libtracefmt.so'

## uninstall: remove what install put there
uninstall:
	$(Q)for f in $(INSTALLED); do IFS=:; set -- $$f; unset IFS; rm -f '$(DESTDIR)'$$2; done
	$(Q)rm -f $(addprefix '$(DESTDIR)',$(INSTALLED_LINKS)) '$(DESTDIR)$(PREFIX)/lib/libtracefmt.so'
	$(Q)rm -rf '$(DESTDIR)$(LIBDIR)/simgpu/python'
	$(Q)rmdir '$(DESTDIR)$(LIBDIR)/simgpu' '$(DESTDIR)$(LIBDIR)' '$(DESTDIR)$(PREFIX)/share/vramtrace/schemas' \
		'$(DESTDIR)$(PREFIX)/share/vramtrace' 2>/dev/null || true

## clean: remove the build folder; the Python environment, shared by clones, stays
clean:
	rm -rf '$(O)'

## help: this list
help:
	@sed -n 's/^## \([a-z0-9-]*\): /\1 /p' Makefile | while read -r t what; do \
		printf '  %-12s %s\n' "$$t" "$$what"; done
	@sed -n 's/^#: //p' Makefile

#: 
#: Variables:
#:   O=build          build folder                       PREFIX=/usr/local DESTDIR=   where to install
#:   V=1              show commands                      CC=clang                     another compiler
#:   DEBUG=1          -O0                                COVERAGE=1                   gcov
#:   SAN=address,undefined | SAN=thread                  sanitizers
#:   VENV=DIR         Python environment of the tests    CUDA_HOME=DIR                a CUDA 13 toolkit
#:   CUDA_TOOLKIT=no  ignore installed toolkits          PYTEST_FLAGS=                more arguments for pytest
#: SAN and COVERAGE are for the analyzer and the unit tests, never for what is loaded into other programs.

.PHONY: all setup venv examples demo screenshots unit check test test-more test-all test-driver test-serving test-matrix test-gpu test-aarch64 emulated thresholds bench man install uninstall clean help
-include $(shell find $(O) -name '*.d' -type f 2>/dev/null)
