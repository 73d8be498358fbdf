from io import StringIO

from django.core.management import call_command


def test_djangos_own_check_for_deployment_runs_to_its_end_and_finds_nothing() -> None:
    out = StringIO()
    call_command("check", deploy=True, stdout=out, stderr=out)
    assert out.getvalue().startswith("System check identified no issues")
