/* SPDX-License-Identifier: MIT */
/* configuration files and GPU files in TOML. package: libtomlplusplus-dev link: -std=c++17 -lstdc++ needed */
#include <toml++/toml.h>

int main()
{
	return toml::parse("a = 1")["a"].value_or(0) != 1;
}
