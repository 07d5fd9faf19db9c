"""Concurrent requests: computed together, refused if there are too many, and without side effects."""

import asyncio

import httpx
import pytest

from fencepost.data.text.splitter import RuleSplitter
from fencepost.runtime.loading import load
from fencepost.server import Batcher, Limits, make_app
from fencepost.server.metrics import Metrics
from tests.runtime import models
from tests.server.conftest import Capitals, asking, post, recogniser, served


def ask(client, text, **options):
    return asyncio.ensure_future(client.post("/v1/entities", json={"text": text, **options}))


async def reached(condition):
    """Wait until the condition holds."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to that")


def test_requests_during_a_computation_are_batched():
    finds = Capitals()
    model = recogniser(finds)

    async def talk(client):
        finds.open.clear()
        finds.start_event.clear()
        first = ask(client, "ROME")
        await reached(finds.start_event.is_set)
        others = [ask(client, f"OSLO {number}") for number in range(10)]
        await reached(lambda: _queue(client) == 10)
        finds.open.set()
        return await asyncio.gather(first, *others)

    answers = asking(talk, model, limits={"batch": 8, "wait": 0})
    assert all(answer.status_code == 200 for answer in answers)
    assert [len(texts) for texts in model.batches] == [1, 8, 2]


def _queue(client: httpx.AsyncClient) -> float:
    """Return the number of waiting texts in the metrics."""
    app = client._transport.app
    (guard,) = (one for one in app.user_middleware if "metrics" in one.kwargs)
    return guard.kwargs["metrics"].queue._value.get()


def test_text_waits_shortly_for_others_but_a_full_batch_does_not():
    model = recogniser(Capitals())

    async def talk(client):
        both = [ask(client, "ROME"), ask(client, "OSLO")]
        await asyncio.gather(*both)  # and no more requests arrive

    asking(talk, model, limits={"batch": 8, "wait": 1.0})
    assert [sorted(texts) for texts in model.batches] == [["OSLO", "ROME"]]

    model = recogniser(Capitals())
    asking(talk, model, limits={"batch": 2, "wait": 3600, "timeout": 10})  # a whole batch does not wait
    assert len(model.batches) == 1


LONG = "a-" * 5000


def test_short_requests_are_answered_before_long_ones():
    finds = Capitals()
    model = recogniser(finds)

    async def talk(client):
        finds.open.clear()
        long = [ask(client, f"LONG{number} {LONG}") for number in range(2)]
        await reached(lambda: len(model.batches) == 2)  # so that both workers have a slice
        ordinary = [ask(client, f"OSLO {number}") for number in range(50)]
        await reached(lambda: _queue(client) == 52)
        finds.open.set()
        assert {answer.status_code for answer in await asyncio.gather(*ordinary)} == {200}
        return await asyncio.gather(*long)

    answers = asking(talk, model, limits={"workers": 2, "wait": 0})
    for number, answer in enumerate(answers):
        (entity,) = answer.json()["results"][0]["entities"]
        assert entity["text"] == f"LONG{number}"
    (place,) = (at for at, parts in enumerate(model.batches) if "OSLO 49" in parts)
    assert place < 30
    assert len(model.batches) > 150


def test_long_requests_are_computed_in_turns():
    finds = Capitals()
    model = recogniser(finds)

    async def talk(client):
        finds.open.clear()
        finds.start_event.clear()
        first, second = ask(client, LONG), ask(client, LONG.replace("a", "b"))
        await reached(finds.start_event.is_set)
        await reached(lambda: len(client._transport.app.state.batcher._sliced) == 2)
        finds.open.set()
        await asyncio.gather(first, second)

    asking(talk, model)
    order = "".join("b" if "b" in parts[0] else "a" for parts in model.batches)
    assert "abababababab" in order
    assert all(sum(len(part.split()) for part in parts) <= 128 for parts in model.batches)


def test_abandoned_long_request_is_not_computed_further():
    finds = Capitals()
    model = recogniser(finds)

    async def run():
        app = make_app(model, name="double", method="none", limits=Limits(timeout=0.3))
        async with app.router.lifespan_context(app):
            for gone in (asyncio.Event(), None):  # one hangs up, one waits until the timeout
                finds.open.clear()
                finds.start_event.clear()
                model.batches.clear()
                request = asyncio.create_task(
                    _raw(app, b'{"text": "%b"}' % LONG.encode(), gone or asyncio.Event())
                )
                await reached(finds.start_event.is_set)
                if gone:
                    gone.set()
                assert await request == (499 if gone else 503)
                finds.open.set()
                assert await _raw(app, b'{"text": "ROME"}', asyncio.Event()) == 200
                assert len(model.batches) == 2

    asyncio.run(run())


def test_request_found_to_be_long_after_its_timeout_leaves_the_queue():
    finds = Capitals()

    async def talk(client):
        finds.open.clear()
        late = await asyncio.gather(ask(client, "ROME"), ask(client, "a " * 600))
        finds.open.set()
        return [answer.status_code for answer in (*late, await ask(client, "OSLO"))], _queue(client)

    limits = {"batch": 2, "wait": 0.1, "timeout": 0.3}
    assert asking(talk, recogniser(finds), limits=limits) == ([503, 503, 200], 0)


def test_slices_give_the_result_of_the_recogniser(tmp_path):
    model = load(models.saved(models.trained(), tmp_path), engine="onnx", settings={"batch_size": 1})
    known = [sentence.text for sentence in models.NESTED]
    endless = " ".join(" ".join(known).replace(".", "").split() * 60)
    texts = [endless, " ".join(known * 40), "", "\n\n".join(known * 30)]
    expected = [[span.to_dict() for span in spans] for spans in model.pipe(texts)]

    async def talk(client):
        together = client.post("/v1/entities", json={"texts": texts})
        return await asyncio.gather(together, *(ask(client, text) for text in texts))

    together, *alone = asking(talk, model, limits={"workers": 3})
    assert [result["entities"] for result in together.json()["results"]] == expected
    assert [answer.json()["results"][0]["entities"] for answer in alone] == expected
    assert sum(map(len, expected)) > 500


@pytest.mark.parametrize(
    ("texts", "status", "message"),
    [
        (["a-" * 5], 200, None),
        (["a " * 10] * 4, 200, None),
        (["a " * 11], 413, "a text may have at most 10 words"),
        (["a", "a-" * 6], 413, "a text may have at most 10 words"),
        (["a " * 10] * 4 + ["a"], 413, "all texts of a request together may have at most 40 words"),
        (["a " * 600], 413, "a text may have at most 10 words"),
        (["a. " * 6000], 413, "a text may have at most 10 words"),
    ],
)
def test_number_of_words_is_limited(texts, status, message):
    model = recogniser(Capitals())
    answer = post({"texts": texts}, model, limits={"words": 10})
    assert answer.status_code == status
    if message:
        assert message in answer.json()["detail"]
        assert not model.batches


def test_text_is_split_only_up_to_the_word_limit(monkeypatch):
    read = []
    original = RuleSplitter._iterate_tokens

    def counted(self, text):
        for token in original(self, text):
            read.append(token)
            yield token

    monkeypatch.setattr(RuleSplitter, "_iterate_tokens", counted)
    answer = asking(lambda client: ask(client, "a-" * 40_000), limits={"words": 1000})
    assert answer.status_code == 413
    assert len(read) <= 1100


def test_shutdown_does_not_wait_for_a_timed_out_computation():
    """A thread cannot be stopped, but the shutdown need not wait for it."""
    finds = Capitals()
    finds.open.clear()

    async def run():
        batcher = Batcher(recogniser(finds), Limits(timeout=0.1), Metrics())
        async with batcher:
            with pytest.raises(TimeoutError):
                await batcher.predict(["ROME"])
        assert batcher.is_computing
        finds.open.set()
        await reached(lambda: not batcher.is_computing)

    asyncio.run(run())


def test_full_queue_answers_429_with_retry_after():
    finds = Capitals()

    async def talk(client):
        finds.open.clear()
        finds.start_event.clear()
        first = ask(client, "ROME")
        await reached(finds.start_event.is_set)
        waiting = [ask(client, "OSLO"), ask(client, "OSLO")]
        await reached(lambda: _queue(client) == 2)
        refused = [await ask(client, "PARIS"), await client.post("/v1/entities", json={"texts": ["a", "b"]})]
        finds.open.set()
        answers = await asyncio.gather(first, *waiting)
        return refused, answers, await ask(client, "PARIS")

    refused, answers, later = asking(talk, recogniser(finds), limits={"queue": 2, "texts": 2})
    for answer in refused:
        assert answer.status_code == 429
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert "queue is full" in answer.json()["detail"]
    assert all(answer.status_code == 200 for answer in answers)
    assert later.status_code == 200


def test_models_share_queue_and_workers():
    finds = Capitals()
    second = recogniser(Capitals())

    async def talk(client):
        finds.open.clear()
        finds.start_event.clear()
        first = ask(client, "ROME")
        await reached(finds.start_event.is_set)
        second.batches.clear()
        waiting = [ask(client, "OSLO"), ask(client, "PARIS", model="second")]
        await reached(lambda: _queue(client) == 2)
        refused = [await ask(client, "ROME"), await ask(client, "ROME", model="second")]
        assert second.batches == []  # the only worker is busy with the other model
        finds.open.set()
        return refused, await asyncio.gather(first, *waiting)

    others = [(second, "second", "none")]
    refused, answers = asking(talk, recogniser(finds), limits={"queue": 2, "texts": 2}, others=others)
    assert [answer.status_code for answer in refused] == [429, 429]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert second.batches == [["PARIS"]]


def test_queue_is_limited_by_characters():
    finds = Capitals()

    async def talk(client):
        finds.open.clear()
        finds.start_event.clear()
        first = ask(client, "ROME")
        await reached(finds.start_event.is_set)
        second = ask(client, "x" * 90)
        await reached(lambda: _queue(client) == 1)
        refused = await ask(client, "x" * 20)
        finds.open.set()
        answers = [await first, await second]
        return refused, *answers, await ask(client, "x" * 90)

    refused, *answers = asking(talk, recogniser(finds), limits={"queue_characters": 100})
    assert refused.status_code == 429
    assert all(answer.status_code == 200 for answer in answers)


def test_failed_text_does_not_affect_others():
    async def talk(client):
        answers = await asyncio.gather(*(ask(client, text) for text in ("ROME", "POISON", "OSLO")))
        many = await client.post("/v1/entities", json={"texts": ["ROME", "POISON"]})
        after = await ask(client, "ROME")
        return [*answers, many, after], (await client.get("/metrics")).text, await client.get("/readyz")

    answers, metrics, ready = asking(talk, limits={"wait": 0.2})
    assert [answer.status_code for answer in answers] == [200, 500, 200, 500, 200]
    assert "RuntimeError" in answers[1].json()["detail"]
    assert "weights" not in answers[1].text  # the message of the model is only in the log
    assert "fencepost_model_errors_total 2.0" in metrics
    assert ready.status_code == 200


def test_timed_out_request_answers_503_and_is_not_computed():
    finds = Capitals()
    model = recogniser(finds)

    async def talk(client):
        finds.open.clear()
        late = await asyncio.gather(ask(client, "ROME"), ask(client, "OSLO"))
        third = await ask(client, "PARIS")
        finds.open.set()
        return late, third, await ask(client, "BERN")

    late, third, after = asking(talk, model, limits={"batch": 2, "timeout": 1.0})
    assert [answer.status_code for answer in (*late, third, after)] == [503, 503, 503, 200]
    assert "send less text" in late[0].json()["detail"]
    assert not any("PARIS" in texts for texts in model.batches)


def test_disconnected_request_is_not_computed():
    finds = Capitals()
    model = recogniser(finds)

    async def run():
        app = make_app(model, name="double", method="none", limits=Limits(batch=1))
        async with app.router.lifespan_context(app):
            finds.open.clear()
            finds.start_event.clear()
            gone = asyncio.Event()
            first = asyncio.create_task(_raw(app, b'{"text": "ROME"}', asyncio.Event()))
            await reached(finds.start_event.is_set)
            second = asyncio.create_task(_raw(app, b'{"text": "OSLO"}', gone))
            await asyncio.sleep(0.05)
            gone.set()
            await second
            finds.open.set()
            assert await first == 200

    asyncio.run(run())
    assert ["ROME"] in model.batches
    assert not any("OSLO" in texts for texts in model.batches)


def test_disconnect_during_the_body_is_handled():
    async def run():
        app = make_app(recogniser(Capitals()), name="double", method="none")
        async with app.router.lifespan_context(app):
            gone = asyncio.Event()
            gone.set()
            return await _raw(app, b'{"text": "RO', gone, more=True)

    assert asyncio.run(run()) == 499


def test_missing_body_times_out_with_408():
    async def run():
        app = make_app(recogniser(Capitals()), name="double", method="none", limits=Limits(timeout=0.1))
        async with app.router.lifespan_context(app):
            return await _raw(app, b'{"text": "RO', asyncio.Event(), more=True)

    assert asyncio.run(run()) == 408


def test_failed_text_cancels_the_rest_of_its_request():
    model = recogniser(Capitals())

    async def talk(client):
        return await client.post("/v1/entities", json={"texts": ["POISON", "ROME", "OSLO"]})

    assert asking(talk, model, limits={"batch": 1, "wait": 0}).status_code == 500
    assert ["OSLO"] not in model.batches


async def _raw(app, body, gone, *, more=False):
    """Return the status of a request whose client disconnects at this event, or sends only a part."""
    messages = [{"type": "http.request", "body": body, "more_body": more}]
    statuses = []

    async def receive():
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        statuses.append(message.get("status"))

    headers = [(b"content-type", b"application/json"), (b"host", b"localhost")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/entities",
        "headers": headers,
        "query_string": b"",
    }
    await app(scope, receive, send)
    return statuses[0]


def test_shutdown_finishes_accepted_requests():
    model = recogniser(Capitals())

    async def run():
        async with Batcher(model, Limits(batch=1), Metrics()) as batcher:
            requests = [asyncio.ensure_future(batcher.predict([f"ROME {number}"])) for number in range(20)]
            await asyncio.sleep(0)
        assert not batcher.ready
        return await asyncio.gather(*requests)

    assert [spans[0].text for (spans,) in asyncio.run(run())] == ["ROME"] * 20


def test_idle_workers_share_the_queue():
    finds = Capitals()
    model = recogniser(finds)

    async def talk(client):
        finds.open.clear()
        finds.start_event.clear()
        requests = [ask(client, f"ROME {number}") for number in range(7)]
        await reached(lambda: len(model.batches) == 3)
        later = [ask(client, f"OSLO {number}") for number in range(5)]
        await reached(lambda: _queue(client) == 5)
        finds.open.set()
        return await asyncio.gather(*requests, *later)

    answers = asking(talk, model, limits={"workers": 3, "wait": 0.2})
    assert [len(texts) for texts in model.batches[:3]] == [3, 2, 2]
    assert sum(len(texts) for texts in model.batches[3:]) == 5
    texts = [answer.json()["results"][0]["entities"][0]["text"] for answer in answers]
    assert texts == ["ROME"] * 7 + ["OSLO"] * 5


@pytest.mark.parametrize("engine", ["onnx", "pytorch"])
def test_workers_do_not_mix_up_texts(tmp_path, engine):
    model = load(models.saved(models.trained(), tmp_path), engine=engine, settings={"batch_size": 1})
    known = [sentence.text for sentence in models.NESTED]
    texts = [" ".join(known[at % 4 :] + known[: at % 3]) for at in range(200)]
    expected = [[span.to_dict() for span in spans] for spans in model.pipe(texts)]

    async def talk(client):
        return await asyncio.gather(*(ask(client, text) for text in texts))

    answers = asking(talk, model, limits={"workers": 4, "batch": 5})
    assert [answer.json()["results"][0]["entities"] for answer in answers] == expected
    assert sum(map(len, expected)) > 500


def test_server_is_ready_from_start_to_shutdown():
    async def run():
        app = make_app(recogniser(Capitals()), name="double", method="none")
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            before = await client.get("/readyz")
            async with app.router.lifespan_context(app):
                during = await client.get("/readyz")
            after = await client.get("/readyz")
            return [answer.status_code for answer in (before, during, after, await client.get("/healthz"))]

    assert asyncio.run(run()) == [503, 200, 503, 200]


@pytest.mark.parametrize("wait", [0, 0.05])
def test_two_servers_have_separate_metrics(wait):
    async def run():
        async with (
            served(recogniser(Capitals()), limits={"wait": wait}) as one,
            served(recogniser(Capitals())) as other,
        ):
            await ask(one, "ROME")
            return (await one.get("/metrics")).text, (await other.get("/metrics")).text

    one, other = asyncio.run(run())
    assert "fencepost_texts_total 1.0" in one
    assert "fencepost_texts_total 0.0" in other


def test_entities_are_the_same_alone_in_batches_and_in_files():
    """The model has int8 graphs."""
    texts = [
        "The president of the university met Ada Lovelace in London.",
        "Rain.",
        "Her brother's wife, who had studied mathematics in Paris, taught at a school near the river.",
        "She bought 3 apples on Monday!",
        "$%& ((( 17.5 °C ???",
    ] * 3
    model = load("mentions")  # it predicts entities in almost every text
    assert model.engine == "int8"
    in_file = [[entity.to_dict() for entity in entities] for entities in model.pipe(texts)]

    async def talk(client):
        together = await asyncio.gather(*(ask(client, text) for text in texts))
        return [*together, *[await ask(client, text) for text in texts]]

    answers = [answer.json()["results"][0]["entities"] for answer in asking(talk, model)]
    assert sum(map(len, in_file)) > len(texts)
    for entities, expected in zip(answers, in_file * 2, strict=True):
        assert [one["score"] for one in entities] == pytest.approx(
            [one["score"] for one in expected], abs=1e-5
        )
        assert [one | {"score": 0} for one in entities] == [one | {"score": 0} for one in expected]
