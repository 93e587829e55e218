# SPDX-License-Identifier: MIT
# The help of the commands about a recording as it is; -h, --help and `help COMMAND` are the same.
exec 2>&1
for command in run check baseline diff info import dump verify anonymize oom advise leaks estimate frag whatif max-fit gpu names completion export top; do
	"$V" "$command" -h; echo "status $?"
	"$V" "$command" -h >short
	"$V" "$command" --help | diff short - && "$V" help "$command" | diff short -
done
