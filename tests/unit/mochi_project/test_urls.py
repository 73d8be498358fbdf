"""Each documented path has its own route; Django takes the first that fits."""

import re

import pytest
from django.urls import resolve, reverse

from mochi_project.api import api


def test_no_other_route_takes_a_documented_path() -> None:
    paths = list(api.get_openapi_schema()["paths"])

    taken_by = {path: resolve(re.sub(r"{\w+}", "sample", path)).route for path in paths}

    documented = {
        path: "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route) for path, route in taken_by.items()
    }
    assert paths
    assert documented == {path: path for path in paths}


@pytest.mark.conformance
def test_routes_that_are_named_by_their_module_are_found_like_others() -> None:
    assert resolve("/v1/models").namespace == "openai"
    assert resolve("/v1/models/hf.co/user/model:Q4").kwargs == {"model_name": "hf.co/user/model:Q4"}
    assert reverse("openai:api-root") == "/v1/"
