# SPDX-License-Identifier: MIT
# The recorder's stack capture by itself: in a library for the Python programs of this folder, and in a unit test.
# Both name the objects they link: the recorder's archive also holds its hooks of exit, abort and dlsym.

PYFRAMES := $(O)/pyframes/libstackprobe.so $(O)/pyframes/embedder
PYFRAMES_UNIT := $(O)/pyframes/test_stacks
INTERNING := libinterpose/pylayout.o libinterpose/pycode.o libinterpose/stacktree.o libinterpose/system.o \
	tracefmt/varint.o
CAPTURE := libinterpose/pyframes.o libinterpose/unwind.o libinterpose/callstack.o

$(O)/pyframes/libstackprobe.so: $(addprefix $(O)/preload/,tests/pyframes/stackprobe.o $(CAPTURE) $(INTERNING))
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -shared -o $@ $^ $(LDFLAGS) $(PRELOAD_LDFLAGS) -lpthread -ldl

$(O)/pyframes/embedder: $(O)/tests/pyframes/embedder.o
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(INSTRUMENT) -o $@ $^ $(LDFLAGS) -ldl

$(PYFRAMES_UNIT): $(addprefix $(O)/,tests/pyframes/test_stacks.o $(INTERNING))
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(INSTRUMENT) -o $@ $^ $(LDFLAGS) -lcmocka -lpthread

pyframes-unit: $(PYFRAMES_UNIT)
	$(Q)echo '  TEST  $<'; $<

unit: pyframes-unit
test test-all: $(PYFRAMES)
.PHONY: pyframes-unit
