import pytest

from tests.unit.chat.summaries.house import House


@pytest.fixture
def house(data_dir):
    return House(data_dir)
