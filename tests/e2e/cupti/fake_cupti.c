/* SPDX-License-Identifier: MIT */
/*
 * A libcupti.so.13 that says no: $FAKE_RESULT is what subscribing ends with, $FAKE_VERSION the version it
 * has. Being loaded, it makes the file $FAKE_LOADED.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static int number(const char *variable, int without)
{
	const char *v = getenv(variable);

	return v ? atoi(v) : without;
}

static __attribute__((constructor)) void loaded(void)
{
	const char *file = getenv("FAKE_LOADED");

	if (file)
		close(open(file, O_CREAT | O_WRONLY, 0600));
}

int cuptiGetVersion(uint32_t *version)
{
	*version = (uint32_t)number("FAKE_VERSION", 130000);
	return 0;
}

int cuptiGetResultString(int result, const char **text)
{
	(void)result;
	*text = "CUPTI_ERROR_UNKNOWN";
	return 0;
}

int cuptiSubscribe(void **handle, void *callback, void *userdata)
{
	(void)callback, (void)userdata;
	*handle = handle;
	return number("FAKE_RESULT", 0);
}

int cuptiUnsubscribe(void *handle)
{
	(void)handle;
	return 0;
}

int cuptiEnableCallback(uint32_t enable, void *handle, int domain, uint32_t id)
{
	(void)enable, (void)handle, (void)domain, (void)id;
	return 0;
}

int cuptiActivityRegisterCallbacks(void *request, void *complete)
{
	(void)request, (void)complete;
	return 0;
}

int cuptiActivityEnable(int kind)
{
	(void)kind;
	return 0;
}

int cuptiActivityDisable(int kind)
{
	(void)kind;
	return 0;
}

int cuptiActivityFlushAll(uint32_t flag)
{
	(void)flag;
	return 0;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record)
{
	(void)buffer, (void)valid, (void)record;
	return 12;
}
