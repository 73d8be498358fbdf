"""What doctor says of variables that do nothing alone."""

import pytest

from chat.notices.findings import notice_findings
from mochi_project.configuration.loading import MochiSettings
from tests.services import services_of

URL = {"webhook_url": "https://ntfy.sh/mine", "webhook_format": "ntfy"}
PUBLIC = {"public_url": "https://mochi.example.org"}


@pytest.mark.parametrize(
    ("values", "states"),
    [
        ({}, []),
        ({"webhook_secret": "x"}, ["note"]),
        (URL, ["note"]),
        (URL | {"webhook_events": ["turn.done"]}, ["ok"]),
        (URL | PUBLIC | {"background_worker": False}, ["note"]),
        (URL | PUBLIC, ["ok"]),
    ],
)
def test_doctor_points_out_what_is_missing(values, states):
    settings = MochiSettings(_env_file=None, **values)
    services = services_of({MochiSettings: settings})
    assert [found.state for found in notice_findings(services)] == states
