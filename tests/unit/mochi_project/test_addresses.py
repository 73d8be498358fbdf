"""Which addresses are of the public Internet: all others are refused, however they are written."""

import pytest

from mochi_project.addresses import all_allowed, is_public, is_public_web


@pytest.mark.parametrize("address", ["93.184.215.14", "8.8.8.8", "2606:2800:21f:cb07::1"])
def test_addresses_of_the_internet_are_public(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "192.0.0.1",
        "192.0.0.9",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::ffff:0:10.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fe80::1%eth0",
        "2606:2800:21f:cb07::1%eth0",
        "fec0::1",
        "3fff::1",
        "ff02::1",
        "localhost",
        "0x7f000001",
        "2130706433",
        "",
    ],
)
def test_no_other_address_is(address):
    assert not is_public(address)


def test_only_the_ports_of_the_web_are_allowed():
    ports = (22, 25, 80, 443, 6379, 8000)
    assert [port for port in ports if is_public_web("8.8.8.8", port)] == [80, 443]


def test_a_name_may_lead_to_public_addresses_alone():
    assert all_allowed(is_public_web, ["8.8.8.8", "8.8.4.4"], 443)
    assert not all_allowed(is_public_web, ["8.8.8.8", "127.0.0.1"], 443)
    assert not all_allowed(is_public_web, [], 443)
