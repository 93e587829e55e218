/* SPDX-License-Identifier: MIT */
/* reading JSON in tests and options. package: libjson-c-dev link: -ljson-c needed */
#include <json-c/json.h>

int main(void)
{
	return json_object_put(json_object_new_object()) == 0;
}
