"""No odd configuration or file ends in a traceback, hangs, or leaves a refused run's folder."""

import pytest
from odd_input import configurations, files, tried

CASES = 700


@pytest.mark.long
def test_odd_input_is_refused_in_words(tmp_path):
    notes = tried([*configurations(tmp_path, CASES, seed=1), *files(tmp_path, CASES, seed=1)])
    assert {case.status for case in notes} >= {0, 2}
    wrong = [
        (case.complaints, case.arguments, case.text[-1500:]) for case in notes if case.complaints
    ]
    assert not wrong, wrong[:5]
