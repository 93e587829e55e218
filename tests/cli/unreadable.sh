# SPDX-License-Identifier: MIT
# What is no recording: a message with the offset, exit 2, and JSON that stays valid.
exec 2>&1
: >empty.vtr
echo 'something else, and longer than a header would be' >other.vtr
mkdir folder.vtr
for command in info dump verify; do
	for file in missing.vtr empty.vtr other.vtr folder.vtr; do
		"$V" $command $file; echo "status $?"
		"$V" $command --json $file 2>/dev/null; echo "status $?"
	done
done
"$V" info -h >/dev/full; echo "status $?"
