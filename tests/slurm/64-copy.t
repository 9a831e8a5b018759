#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `ddict copy` between dictionaries of one job: each node that all of them have copies a share, whichever of them has fewer nodes. The same from Python, with a
# dictionary that copy() makes.
. "$(dirname "$0")/lib.sh"
need_nodes 3
limit=150
home=$PWD
trap 'rm -f "$out" "$home"/copy.*' EXIT
opts="--ddict-mem=96M --ddict-record=none"

cat >"$home/copy.fill.py" <<'END'
import ddict
d = ddict.attach()
d.put_many(("k/%d" % i, bytes([i % 256]) * (i % 3000)) for i in range(5000))
END
cat >"$home/copy.new.py" <<'END'
import ddict, os
d = ddict.attach()
with d.copy("other") as other:
    print("same", len(other), dict(other.items()) == dict(d.items()), "managers", other.info["managers"], "nodes", other.info["nodes"])
    print("name", os.environ["DDICT_NAME"] == d.name)
    print("filled", ddict.synchronize([d, "wide", other]) == ["wide"], len(ddict.attach("wide")))
    other["k/7"] = b"x"
    try:
        ddict.synchronize([d, other])
    except ddict.SyncError as e:
        print("differ", e.differ == [d.name, "other"], "'k/7': has another value" in str(e))
END
# shellcheck disable=SC2016
printf '#!/bin/sh\nset -e\neval "$(ddict env)"\ncd %s\n%s\n' "$home" 'python3 copy.fill.py
ddict up --name=wide --managers=6 --mem=96M
ddict up --name=few --managers=2 --nodes=2 --mem=64M
ddict copy --json "$DDICT_NAME" wide | sed "s/^/wide /"
ddict copy --json wide few | sed "s/^/few /"
srun -N2 -n2 --overlap --ddict-scope=step --ddict-mem=64M sh -c "[ \$SLURM_PROCID = 0 ] || exit 0; ddict copy --json wide \$DDICT_NAME | sed s/^/narrow/ && ddict copy --compare --json \$DDICT_NAME few | sed s/^/compared/"
ddict rm --name=wide k/7
ddict copy --compare few wide || echo "code $?"
ddict copy --clear -q few wide && ddict copy --compare --json wide few | sed "s/^/again /"
ddict up --name=small --managers=1 --nodes=1 --mem=8M
python3 -c "import ddict; ddict.attach(\"wide\").update((i, bytes(1 << 20)) for i in range(20))"
ddict copy wide small || echo "small $?"
python3 -c "import ddict; ddict.attach(\"wide\").clear()"
python3 copy.new.py' >"$home/copy.sh"
t "a_batch_script" sub sbatch -Q --wait -N3 --overcommit $opts -o "$home/copy.out" "$home/copy.sh"
cat "$home/copy.out" >>"$out"
has "three_nodes_copy" '^wide .*"items": ?5000,.*"nodes": ?3'
has "or_to_one_that_has_keys_on_two_of_them" '^few .*"items": ?5000,.*"nodes": ?3'
has "two_of_them_to_a_dictionary_of_two" '^narrow.*"items": ?5000,.*"nodes": ?2'
has "and_compare" '^compared.*"items": ?5000,.*"differ": ?0,.*"nodes": ?2'
has "what_is_missing_is_said" "contents differ: 'k/7': is not there"
has "with_its_code" '^code 1$'
has "it_is_there_again" '^again .*"items": ?5000,.*"differ": ?0'
has "what_does_not_fit_is_said_with_the_name" 'small: cannot store all: .* is full'
has "with_its_code_too" '^small 1$'
has "a_copy_from_python" '^same 5000 True managers 3 nodes 3$'
has "leaves_the_job_s_dictionary" '^name True$'
has "an_empty_one_is_filled" '^filled True 5000$'
has "others_are_compared" '^differ True True$'
clean_after "nothing_is_left"
