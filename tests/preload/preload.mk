# SPDX-License-Identifier: MIT
# The recorder's knowledge of loaded objects by itself, its tables of texts and shapes, its choice of programs, its
# definitions of devices, its names of autograd nodes, where its own thread runs, its clock, open captures, limits of control
# groups, its memo of stack ids, its reading of what may not be there. The rest of this folder is Python's, which compiles what it needs.
PRELOAD_UNIT := $(O)/tests/preload/test_objects $(O)/tests/preload/test_interning \
	$(O)/tests/preload/test_filter $(O)/tests/preload/test_device_definition \
	$(O)/tests/preload/test_nodes $(O)/tests/preload/test_place $(O)/tests/preload/test_clock \
	$(O)/tests/preload/test_captures $(O)/tests/preload/test_room $(O)/tests/preload/test_traverse \
	$(O)/tests/preload/test_stackmemo

$(O)/tests/preload/test_objects: $(O)/libinterpose/objects.o
$(O)/tests/preload/test_filter: $(O)/libinterpose/filter.o
$(O)/tests/preload/test_place: $(O)/libinterpose/place.o
$(O)/tests/preload/test_room: $(O)/libinterpose/census_room.o
$(O)/tests/preload/test_traverse: $(O)/libinterpose/traverse.o
$(O)/tests/preload/test_stackmemo: $(O)/libinterpose/stackmemo.o
$(O)/tests/preload/test_captures: $(addprefix $(O)/libinterpose/,captures.o system.o)
$(O)/tests/preload/test_device_definition: $(addprefix $(O)/libinterpose/,driver_query.o system.o) $(O)/tracefmt/varint.o
$(O)/libinterpose/driver_query.o: CPPFLAGS += $(CUDA_CFLAGS)
$(O)/tests/preload/test_nodes: $(addprefix $(O)/libinterpose/,autograd.o system.o)
$(O)/tests/preload/test_interning: $(addprefix $(O)/libinterpose/,strings.o shapes.o system.o) $(O)/tracefmt/varint.o

$(PRELOAD_UNIT): %: %.o
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(INSTRUMENT) -o $@ $^ $(LDFLAGS) -lcmocka -lpthread -ldl

unit: unit-preload

unit-preload: $(PRELOAD_UNIT)
	$(Q)for t in $^; do echo "  TEST  $$t"; $$t || exit 1; done

.PHONY: unit-preload
