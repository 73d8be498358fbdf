"""What a web process died of can be read in the log."""

import signal

import psutil


def test_the_log_says_how_web_processes_died_and_where_one_crashed(start, eventually):
    server = start("--workers", "2")
    killed, crashed = server.web_processes

    killed.kill()
    crashed.send_signal(signal.SIGSEGV)
    psutil.wait_procs([killed, crashed], timeout=60)

    eventually(lambda: server.log.read_text().count("a web worker ended unexpectedly") == 2)
    log = server.log.read_text()
    assert "a web worker ended unexpectedly (Killed); restarting in" in log
    assert "a web worker ended unexpectedly (Segmentation fault); restarting in" in log
    assert "Fatal Python error: Segmentation fault\n\n" in log
    assert "mochi_project/process/web_workers.py" in log
