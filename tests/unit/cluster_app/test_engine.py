"""Prompts, profiles and failed summaries are in files, or in the object store of all nodes."""

from pathlib import Path

from cluster_app.objects.store import ObjectStore
from mochi_project.app import build_services
from mochi_project.configuration.loading import MochiSettings, load_settings
from sessions_app.store.records import RecordStores


def node(directory: Path, object_url: str) -> MochiSettings:
    """Return the settings of a node with a data directory of its own."""
    return load_settings(
        data_dir=directory,
        journal_url="redis://localhost:1",
        sessions_url=object_url,
        secret_key="s" * 32,
    )


def test_what_one_node_writes_another_reads_and_no_node_keeps_files(
    tmp_path: Path, object_url: str, object_store: ObjectStore
) -> None:
    one, other = (node(tmp_path / name, object_url) for name in ("one", "other"))
    here, there = (build_services(settings).get(RecordStores) for settings in (one, other))
    for name in ("prompts", "profiles", "summaries"):
        here.open(one.resolved_data_dir / name, name).put("a.md", name.encode())
        assert there.open(other.resolved_data_dir / name, name).read("a.md") == name.encode()
    assert list(tmp_path.rglob("*.md")) == []
    keys = {item.key for page in object_store.list() for item in page}
    assert keys == {"prompts/a.md", "profiles/a.md", "summaries/a.md"}


def test_without_an_object_store_they_are_files(data_dir: Path) -> None:
    stores = build_services(load_settings(data_dir=data_dir)).get(RecordStores)
    stores.open(data_dir / "profiles", "others").put("a.md", b"text")
    assert [path.relative_to(data_dir).as_posix() for path in data_dir.rglob("*.md")] == [
        "profiles/a.md"
    ]
