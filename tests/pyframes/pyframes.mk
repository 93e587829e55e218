# SPDX-License-Identifier: MIT
# The recorder's stack capture by itself: in a library for the Python programs of this folder, and under a unit test.
# Both name the objects they link: the recorder's archive also holds its hooks of exit, abort and dlsym.

PYFRAMES := $(O)/pyframes/libstackprobe.so
PYFRAMES_UNIT := $(O)/pyframes/test_stacks
PYFRAMES_IP := pylayout pycode stacktree memory

$(PYFRAMES): $(addprefix $(O)/preload/,tests/pyframes/stackprobe.o tracefmt/varint.o \
		$(PYFRAMES_IP:%=libinterpose/%.o) $(addprefix libinterpose/,pyframes.o unwind.o callstack.o))
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -shared -o $@ $^ $(LDFLAGS) $(PRELOAD_LDFLAGS) -lpthread -ldl

$(PYFRAMES_UNIT): $(addprefix $(O)/,tests/pyframes/test_stacks.o tracefmt/varint.o $(PYFRAMES_IP:%=libinterpose/%.o))
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(INSTRUMENT) -o $@ $^ $(LDFLAGS) -lcmocka -lpthread

pyframes-unit: $(PYFRAMES_UNIT)
	$(Q)echo '  TEST  $<'; $<

unit: pyframes-unit
test test-all: $(PYFRAMES)
.PHONY: pyframes-unit
