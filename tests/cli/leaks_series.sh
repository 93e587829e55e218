# SPDX-License-Identifier: MIT
# leaks --series: the growth of a log's figures, healthy ones, and input that cannot be used.
exec 2>&1
series()
{
	echo "== $*"
	"$V" leaks --series - "$@"
	echo "status $?"
}
step=0
for gb in 18.2 18.5 18.9 19.4 20.1 20.9 21.8 22.9 24.2; do
	step=$((step + 100))
	echo "Step $step: Loss=2.34, Memory=${gb}GB"
done >log
series <log
series --capacity 24GiB --context 0.5GB <log
series --binary --capacity 24GiB --exit-code <log
series --warn-growth 5%/10steps <log
series --warn-growth 1%/100steps <log
"$V" leaks --series log --json --capacity 24GiB --context 0.5GB
seq 1 40 | sed 's/.*/&,1073741824/' | series --capacity 2GiB --exit-code
printf '1,1000000\n2,1000001\n3,1000002\n4,1000003\n5,1000004\n' | series --horizon 10 --exit-code --capacity 1GiB
printf '1 10GiB\n2 11GiB\n3 12GiB\n' | series --capacity 20GiB
printf '1,1GB\n2,1100MB\n3,1.2GiB\n4,1300000 kB\n5,-1\n-6,1GB\n7,nan\n' | series
printf 'step,memory_gib\n1,10\n2,10.5\n3,11\n4,11.5\n5,12\n' | series
printf 'mem 1GB\nmem 2GB\nmem 3GB\nmem 4GB\n' | series
printf '1,5\n2,6\n3,7\n4,8\n' | series
printf '100,1GB\n200,2GB\n300,3GB\n1,1GB\n2,2GB\n3,3GB\n4,4GB\n' | series
printf '5,5GB\n4,4GB\n3,3GB\n2,2GB\n1,1GB\n' | series
printf '1,1GB\n1,2GB\n1,3GB\n1,4GB\n' | series
printf '1,1GB\n' | series
printf '1e17,5GB\n2e17,6GB\n3e17,7GB\n4e17,8GB\n5e17,9GB\n' | series --capacity 24GiB
series </dev/null
echo 'nothing here' | series
head -c 100000 /dev/zero | series
printf 'Step 1: Memory=18.2\nStep 2: Memory=18.3\n' | series
printf '1,-5\n2,nan\n' | series
echo 'nothing here' | series --json
echo '== usage'
"$V" leaks --series missing.log
"$V" leaks --series log train.vtr
"$V" leaks --series log --csv
"$V" leaks --series log --unit parsec
"$V" leaks --series log --warn-growth much
"$V" leaks --series log --warn-growth 5/10steps
"$V" leaks --series log --capacity 0
"$V" leaks --series log --horizon 0
"$V" leaks --series log --context 3GiB --capacity 2GiB
"$V" leaks --context 2GiB train.vtr
