# Sourced by the ablations: rows of a table, each a recipe with other flags, over seeds.
#
#     SEEDS="1 2 3 4"   the papers have 4 to 10 runs a row
#     SAVE_DIR          a folder for all of them, with one below it for every run
# and what recipe.sh reads; with VARIANT=released the rows are called NAME-released.
# The rows go to the table of results under the variant's name.

EXAMPLES="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
SEEDS="${SEEDS:-1 2 3 4}"
[[ -z ${SMOKE:-} ]] || SEEDS=1

# variant NAME FLAGS...: the recipe $RECIPE with these flags.
variant() {
    local name="$1" seed
    shift
    name+="${VARIANT:+-$VARIANT}"
    for seed in $SEEDS; do
        SEED=$seed VARIANT="$name" SAVE_DIR="${SAVE_DIR:+$SAVE_DIR/$RECIPE/$name/seed$seed}" \
            bash "$EXAMPLES/$RECIPE.sh" "$@"
    done
}
