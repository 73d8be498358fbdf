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


def test_a_replacement_that_can_not_start_costs_the_others_nothing(start, eventually):
    server = start("--workers", "2")
    killed, healthy = server.web_processes
    (server.data_dir / ".env").write_text("MOCHI_MAX_ACTIVE_TURNS=many\n")

    killed.kill()
    psutil.wait_procs([killed], timeout=60)

    eventually(lambda: server.log.read_text().count("a web worker could not start") >= 2)
    assert "MOCHI_MAX_ACTIVE_TURNS" in server.log.read_text()
    assert server.chat_with(healthy).http.get("/health").status_code == 200
    (server.data_dir / ".env").unlink()
    eventually(lambda: len(server.web_processes) == 2)
    server.stop()
    assert server.process.returncode == 0
