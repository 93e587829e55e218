# SPDX-License-Identifier: MIT
# The recorder's stack capture by itself: in a library for the Python programs of this folder, and in a unit test.
# Both name the objects they link: the recorder's archive also holds its hooks of exit, abort and dlsym.

PYFRAMES := $(O)/pyframes/libstackprobe.so $(O)/pyframes/libstackprobe-unwatched.so $(O)/pyframes/libobjectprobe.so \
	$(O)/pyframes/embedder
PYFRAMES_UNIT := $(O)/pyframes/test_stacks $(O)/pyframes/test_unwind
PLUGINS := $(O)/pyframes/plugin1.so $(O)/pyframes/plugin2.so
INTERNING := libinterpose/pylayout.o libinterpose/pycode.o libinterpose/instances.o libinterpose/pytext.o libinterpose/stacktree.o libinterpose/system.o \
	tracefmt/varint.o
UNWINDING := libinterpose/unwind_table.o libinterpose/unwind_known.o libinterpose/unwind_rules.o \
	libinterpose/unwind_cfi.o libinterpose/unwind_libunwind.o
CAPTURE := libinterpose/pyframes.o libinterpose/pychain.o libinterpose/callstack.o libinterpose/stackmemo.o libinterpose/unwind.o $(UNWINDING)
OBJECTS := $(addprefix libinterpose/,pyobjects.o pyobjects_find.o pyarray.o pycontainer.o pyframes.o pylayout.o pytext.o objects.o census_walk.o census_collector.o \
	census_kinds.o census_tensor.o traverse.o)

# Watched code objects, and such as cannot be.
$(O)/pyframes/libstackprobe.so: $(O)/preload/libinterpose/pywatch.o
$(O)/pyframes/libstackprobe-unwatched.so: $(O)/preload/tests/pyframes/no_watch.o
$(O)/pyframes/libstackprobe%: $(addprefix $(O)/preload/,tests/pyframes/stackprobe.o $(CAPTURE) $(INTERNING))
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -shared -o $@ $^ $(LDFLAGS) $(PRELOAD_LDFLAGS) -lpthread -ldl

$(O)/pyframes/libobjectprobe.so: $(addprefix $(O)/preload/,tests/pyframes/objectprobe.o $(OBJECTS))
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -shared -o $@ $^ $(LDFLAGS) $(PRELOAD_LDFLAGS) -lpthread -ldl

$(O)/pyframes/embedder: $(O)/tests/pyframes/embedder.o
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(INSTRUMENT) -o $@ $^ $(LDFLAGS) -ldl

$(O)/pyframes/test_stacks: $(addprefix $(O)/,$(INTERNING) tests/pyframes/no_watch.o)
$(O)/pyframes/test_unwind: $(addprefix $(O)/,libinterpose/unwind.o $(UNWINDING)) | $(PLUGINS)
$(O)/pyframes/test_unwind: LDFLAGS += -Wl,--wrap=_Unwind_Backtrace

$(PYFRAMES_UNIT): $(O)/pyframes/%: $(O)/tests/pyframes/%.o
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(INSTRUMENT) -o $@ $^ $(LDFLAGS) -lcmocka -lpthread -ldl

# One library with two sizes of frames; the code is otherwise the same.
$(O)/pyframes/plugin%.so: tests/pyframes/plugin.c $(O)/flags.key
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CPPFLAGS) -O1 -fomit-frame-pointer -fPIC $(WARN) -DROOM='(16 + 32 * $*)' -shared \
		-Wl,-soname,plugin.so -o $@ $<

pyframes-unit: $(PYFRAMES_UNIT)
	$(Q)for t in $^; do echo "  TEST  $$t"; $$t || exit 1; done

unit: pyframes-unit
test test-more test-all: $(PYFRAMES)
.PHONY: pyframes-unit
