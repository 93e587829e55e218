/* SPDX-License-Identifier: MIT */
/* A device is defined once, also if there was no room for it at first, and before anybody's event of it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "libinterpose/info.h"
#include "libinterpose/interpose.h"
#include "libinterpose/nvml_query.h"
#include "libinterpose/resolve.h"

static struct ip_recorder recorder;
struct ip_recorder *ip_recorder = &recorder;

static _Atomic unsigned nr_tries, nr_defined;
static unsigned nr_without_room;
static _Atomic bool is_slow;

static int device_get(int *device, int ordinal)
{
	*device = ordinal;
	return 0;
}

void *ip_driver_symbol(const char *name)
{
	return strcmp(name, "cuDeviceGet") == 0 ? (void *)device_get : NULL;
}

uint32_t ip_driver_epoch(void)
{
	return 0;
}

struct ip_nvml_identity ip_nvml_find(unsigned ordinal, char *uuid, const char *pci_bus_id)
{
	(void)ordinal;
	(void)uuid;
	(void)pci_bus_id;
	return (struct ip_nvml_identity){ .physical_index = -1 };
}

bool info_is_capacity_unlimited(void)
{
	return false;
}

bool ip_define(uint32_t type, uint32_t id, const void *payload, size_t len)
{
	(void)type;
	(void)id;
	(void)payload;
	(void)len;
	if (is_slow)
		ip_pause(5000000);
	if (nr_tries++ < nr_without_room)
		return false;
	nr_defined++;
	return true;
}

void ip_waited(uint64_t since_ns)
{
	(void)since_ns;
}

static int setup(void **state)
{
	(void)state;
	memset(&recorder, 0, sizeof(recorder));
	nr_tries = nr_defined = nr_without_room = 0;
	is_slow = false;
	return 0;
}

static void test_no_room_at_first(void **state)
{
	struct ip_thread t = { 0 };

	(void)state;
	nr_without_room = 2;
	for (int i = 0; i < 5; i++)
		ip_driver_define_device(&t, 1);
	assert_int_equal(nr_tries, 3);
	assert_int_equal(nr_defined, 1);
	assert_false(t.busy);
}

static void *define_it(void *defined_by_then)
{
	struct ip_thread t = { 0 };

	ip_driver_define_device(&t, 1);
	*(unsigned *)defined_by_then = nr_defined;
	return NULL;
}

static void test_several_threads(void **state)
{
	unsigned defined[4] = { 0 };
	pthread_t thread[4];

	(void)state;
	is_slow = true;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, define_it, &defined[i]), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(nr_defined, 1);
	for (int i = 0; i < 4; i++)
		assert_int_equal(defined[i], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_no_room_at_first, setup),
		cmocka_unit_test_setup(test_several_threads, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
