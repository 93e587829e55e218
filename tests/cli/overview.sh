# SPDX-License-Identifier: MIT
# Without a command, with help, and with one that does not exist.
exec 2>&1
"$V"; echo "status $?"
"$V" help >overview; "$V" help; echo "status $?"
"$V" --version | sed 's/ (commit [^ ]*)$//; s/[0-9][0-9.]*/N/'
for word in rune leak xyz ''; do
	"$V" "$word"; echo "status $?"
done
"$V" --verbose; echo "status $?"
"$V" help nothing; echo "status $?"
"$V" help leek; echo "status $?"
"$V" help help | cmp - overview && echo "help help: the overview"
