"""Which adapters keep what belongs to turns."""

from pathlib import Path

import pytest

from chat.errors import ConfirmationAlreadyDecided
from mochi_project.configuration.loading import load_settings
from mochi_project.wiring.cluster import build_cluster
from mochi_project.wiring.storage import build_questions
from sessions_app.ids_and_clock import new_session_id
from sessions_app.messages import ToolCall
from tests.unit.mochi_project.wiring.test_cluster import KEY


@pytest.mark.allow_blocking
def test_machines_share_questions_and_keep_those_of_unsaved_sessions_apart(
    tmp_path: Path, redis_server: str
) -> None:
    stores = []
    for name in ("one", "two"):
        settings = load_settings(data_dir=tmp_path / name, journal_url=redis_server, secret_key=KEY)
        cluster = build_cluster(settings)
        stores.append(build_questions(settings, cluster))
    unsaved = build_questions(settings, cluster, ephemeral=True)
    session_id = new_session_id()
    question = stores[0].ask(
        session_id=session_id,
        message_id="f1e2d3c4b5",
        call=ToolCall(id="call_1", name="delete", arguments={}),
        call_index=0,
        turn_id="turn",
    )
    assert unsaved.pending(session_id) == []
    stores[1].decide(session_id, question.confirmation_id, approved=True)
    with pytest.raises(ConfirmationAlreadyDecided):
        stores[0].decide(session_id, question.confirmation_id, approved=False)
    assert not (tmp_path / "one").exists()
