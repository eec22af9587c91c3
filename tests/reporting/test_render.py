"""Every native environment has a picture and a text, and episodes become animations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from purerl.algos.ppo import PPOConfig, ppo
from purerl.catalog.environments import ENVIRONMENTS
from purerl.envs import drawing
from purerl.envs.bsuite.catch import Catch, CatchState
from purerl.envs.classic.cartpole import CartPole, CartPoleState
from purerl.envs.grid.grid_world import GridWorld
from purerl.errors import InputError
from purerl.registry import make
from purerl.reporting.render import agent_policy, frames, frames_text, play, random_policy, record, save_gif
from purerl.types import Environment, EnvironmentSpec
from purerl.wrappers import ActionMask, FrameStack, TimeLimit
from tests.helpers.marks import rows

STATIC = {"MatrixGame", "SimpleBandit"}  # show their payoffs and arms, which never change


@pytest.mark.parametrize("env_id", rows(ENVIRONMENTS, {"CartPole-v1", "Catch"}, pytest.mark.long))
def test_every_environment_has_a_picture_and_a_text(env_id):
    env = make(env_id)
    episode = play(env, random_policy(env), jax.random.key(0), max_steps=12)
    pictures, texts = frames(env, episode), frames_text(env, episode)
    length = len(jax.tree.leaves(episode.reward)[0])
    assert len(pictures) == len(texts) == length + 1
    for picture in pictures:
        assert picture.dtype == np.uint8
        assert picture.shape == pictures[0].shape
        assert picture.shape[2] == 3
        assert np.any(picture != picture[0, 0])
    assert all(isinstance(text, str) and text.strip() for text in texts)
    if env_id not in STATIC:
        assert any(not np.array_equal(picture, pictures[0]) for picture in pictures)
        assert len(set(texts)) > 1 or "Bandit" in env_id


def test_tiles_are_where_things_are():
    env = Catch()
    state = CatchState(*map(np.int32, (3, 1, 4)))
    lines = env.render_text(state).split("\n")
    assert lines[3] == ".o..."
    assert lines[9] == "....@"
    picture = env.render(state)
    side = picture.shape[0] // 10
    assert tuple(picture[3 * side + side // 2, 1 * side + side // 2]) == drawing.TILES["o"]
    assert tuple(picture[9 * side + side // 2, 4 * side + side // 2]) == drawing.TILES["@"]
    assert tuple(picture[5 * side + side // 2, 2 * side + side // 2]) == drawing.TILES["."]


def test_the_pole_leans_where_its_angle_says():
    for angle, side in ((0.3, 1), (-0.3, -1)):
        state = CartPoleState(*map(np.float32, (0.0, 0.0, angle, 0.0)), np.int32(0))
        picture = CartPole().render(state)
        columns = np.argwhere(np.all(picture == drawing.ORANGE, axis=2))[:, 1]
        assert np.sign(columns.mean() - picture.shape[1] / 2) == side


def test_hues_are_distinct():
    assert len({drawing.hue(i) for i in range(36)}) == 36


@pytest.mark.long
def test_parameters_are_drawn():
    env = GridWorld.from_text("S.G\n.#H")
    state, _ = env.reset(jax.random.key(0))
    assert env.render_text(state) == "@.G\n.#H"


def test_wrapped_environments_draw_what_is_inside(key):
    inner = CartPole()
    env = FrameStack(TimeLimit(inner, time_limit=5), num_frames=2)
    episode = play(env, random_policy(env), key, max_steps=20)
    assert len(episode.reward) == 5
    assert episode.done
    last = jax.tree.map(lambda x: x[-1], episode.state.inner.inner)
    assert isinstance(last, CartPoleState)
    np.testing.assert_array_equal(frames(env, episode)[-1], inner.render(last))
    assert frames_text(env, episode)[-1] == inner.render_text(last)


def test_environments_without_a_picture_say_so(key):
    with pytest.raises(InputError, match="no picture"):
        Environment().render(None)
    assert Environment().render_text(CartPoleState(0.0, 1.5, 0.0, 0.0, 7)).split()[3] == "1.5"


@pytest.mark.long
@pytest.mark.parametrize("core", ["none", "gru"])
def test_an_agent_can_be_watched(core, key):
    env = CartPole(force=0.0)  # the pole falls whatever is done
    algorithm = ppo(EnvironmentSpec(env.observation_space, env.action_space), PPOConfig(rnn=core))
    policy = agent_policy(algorithm, algorithm.init(key))
    first, second = (play(env, policy, key, max_steps=200) for _ in range(2))
    assert first.done
    assert len(first.reward) == len(first.action) == len(first.state.angle) - 1 < 200
    np.testing.assert_array_equal(first.action, second.action)
    limit = env.angle_limit
    assert abs(first.state.angle[-1]) > limit >= np.abs(first.state.angle[:-1]).max()


def test_gifs(tmp_path, key):
    env = Catch()
    images = record(env, random_policy(env), key, max_steps=30)
    assert len(images) == 10  # the start and nine steps
    save_gif(images, tmp_path / "catch.gif", fps=20)
    with Image.open(tmp_path / "catch.gif") as gif:
        assert gif.size == images[0].shape[1::-1]
        assert gif.info["duration"] == 50
        assert gif.info["loop"] == 0
        gif.seek(4)
        shown = np.asarray(gif.convert("RGB")).astype(int)
    assert np.abs(shown - images[4]).max() <= 8


def test_a_color_seen_for_a_moment_is_kept(tmp_path):
    images = [np.zeros((64, 64, 3), np.uint8) for _ in range(40)]
    images[0][:] = (np.indices((64, 64)).sum(axis=0) * 2)[..., None]  # many colors in another picture
    for t, image in enumerate(images):
        image[63, t] = 255  # equal pictures would be joined
    images[13][5, 7] = (213, 94, 0)
    save_gif(images, tmp_path / "moment.gif")
    with Image.open(tmp_path / "moment.gif") as gif:
        gif.seek(13)
        np.testing.assert_array_equal(np.asarray(gif.convert("RGB"))[5, 7], (213, 94, 0))


def test_gifs_that_cannot_be_saved(tmp_path):
    image = np.zeros((4, 4, 3), np.uint8)
    for images, path, fps, message in [
        ([], "a.gif", 30, "no pictures"),
        ([image, image[:2]], "a.gif", 30, "one size"),
        ([image], "a.gif", 0, "fps"),
        ([image], "missing/a.gif", 30, "cannot write"),
    ]:
        with pytest.raises(InputError, match=message):
            save_gif(images, tmp_path / path, fps)


@pytest.mark.long
def test_masked_actions_are_not_taken(key):
    env = ActionMask(CartPole(), legal=lambda state: jnp.array([False, True]))
    episode = play(env, random_policy(env), key, max_steps=50)
    assert set(episode.action) == {1}
