/* SPDX-License-Identifier: MIT */
/* databases, one of the formats of export. package: libsqlite3-dev link: -lsqlite3 needed */
#include <sqlite3.h>

int main(void)
{
	return sqlite3_libversion_number() == 0;
}
