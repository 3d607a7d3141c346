"""What a block costs in Python, beside mpi4py's own reduction; the page has the numbers."""

import re

MOST = 1.3


def test_a_block_costs_no_more_than_a_reduction(launch):
    said = launch(2, "overhead.py", "15").expect(1, "2 ranks").output
    ratios = {line[1]: float(line[0]) for line in re.findall(r"ratio +([0-9.]+)  (.*)", said)}
    assert len(ratios) == 5 and ratios["mpi4py's own."] == 1, said
    assert ratios["A block without requests."] <= MOST, said
    assert ratios["A block that ends with the same reduction."] <= MOST, said
