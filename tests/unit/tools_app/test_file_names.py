"""Names of files that tools return."""

import pytest

from tests.unit.sessions_app.attachments.images import HEIC, PDF, gif, jpeg, png, webp
from tools_app.file_names import file_name, name_in


@pytest.mark.parametrize(
    ("data", "number", "name"),
    [
        (png(), 1, "plot.png"),
        (jpeg(), 2, "plot-2.jpg"),
        (gif(), 1, "plot.gif"),
        (webp(), 1, "plot.webp"),
        (HEIC, 3, "plot-3.heic"),
        (PDF, 1, "plot.pdf"),
        (b"words", 1, "plot"),
        (b"", 1, "plot"),
    ],
)
def test_a_file_is_called_after_its_tool_and_its_kind(data, number, name):
    assert file_name("plot", number, data) == name


def test_no_name_leads_out_of_a_folder_or_is_endless():
    assert file_name("../../etc/passwd\0", 1, b"") == "etc-passwd"
    assert file_name("/", 1, png()) == "result.png"
    assert len(file_name("x" * 5000, 1, png())) == 104


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("file:///home/me/chart.png", "chart.png"),
        ("https://x.example/a/Bild%20%C3%A4.png?size=2#here", "Bild-ä.png"),
        ("file:///a/..", ""),
        ("file:///a/%2e%2e%2fsecret", "secret"),
        ("screen://", ""),
        ("http://[broken/a.png", ""),
        ("file:///a/\ud800.png", "png"),
    ],
)
def test_a_resource_is_called_after_the_end_of_its_path(uri, name):
    assert name_in(uri) == name
