import pytest

from tidegate.config import read_settings
from tidegate.config.model import SettingsSection
from tidegate.errors import ConfigError
from tidegate.plan.settings import ErrorPolicy, OnIdle, RowPath, Settings, TimeMode


def refusal(mapping):
    with pytest.raises(ConfigError) as caught:
        read_settings(mapping, "transforms.delays")
    return str(caught.value)


def test_nothing_set_means_the_defaults():
    assert read_settings({}) == Settings()


def test_every_setting_is_read():
    assert read_settings(
        {
            "time": "event",
            "event_time_field": "ts",
            "event_time_unit": "ms",
            "event_time_metadata": "file",
            "null_event_time": "fallback",
            "max_future_skew": "1h",
            "watermark_lag": "250ms",
            "allowed_lateness": "0s",
            "shard": "partition",
            "idle_timeout": "30s",
            "on_idle": "advance",
            "clock_interval": "2s",
            "max_groups": 10,
            "max_rows_per_group": 20,
            "error_policy": "null",
            "dedup_key": "id",
            "dedup_horizon": "10m",
            "streaming_aggregation": "off",
        }
    ) == Settings(
        time=TimeMode.EVENT,
        event_time_field="ts",
        event_time_unit="ms",
        event_time_metadata="file",
        null_event_time="fallback",
        max_future_skew_us=3_600_000_000,
        watermark_lag_us=250_000,
        allowed_lateness_us=0,
        shard="partition",
        idle_timeout_us=30_000_000,
        on_idle=OnIdle.ADVANCE,
        clock_interval_us=2_000_000,
        max_groups=10,
        max_rows_per_group=20,
        error_policy=ErrorPolicy.NULL,
        dedup_key="id",
        dedup_horizon_us=600_000_000,
        streaming_aggregation=RowPath.OFF,
    )


def test_every_setting_has_the_default_of_the_plan():
    assert read_settings({}) == Settings()
    assert all(field.description for field in SettingsSection.model_fields.values())


def test_a_wrong_key_names_the_nearest_right_one():
    assert refusal({"watermark_lagg": "5m"}) == (
        "transforms.delays: there is no key watermark_lagg\n\nDid you mean watermark_lag?"
    )


def test_the_error_of_a_key_unlike_any_other_lists_all_keys():
    assert "The keys are time, event_time_field," in refusal({"zzz": 1})


@pytest.mark.parametrize(
    ("mapping", "what"),
    [
        ({"watermark_lag": "5 min"}, "watermark_lag = \"5 min\": '5 min' is not a duration"),
        ({"watermark_lag": "-5m"}, "'-5m' is negative"),
        ({"watermark_lag": 5}, "watermark_lag = 5: a duration is text with a unit"),
        ({"watermark_lag": True}, "watermark_lag = true: it must be a whole number"),
        ({"idle_timeout": "0s"}, 'idle_timeout = "0s": it must be greater than 0'),
        ({"on_idle": "wait"}, "on_idle = \"wait\": it must be 'hold' or 'advance'"),
        ({"event_time_unit": "min"}, "it must be one of s, ms, us, ns"),
        ({"max_groups": 0}, "max_groups = 0: it must be greater than 0"),
        ({"max_groups": "many"}, 'max_groups = "many": it must be a whole number'),
        ({"shard": 3}, "shard = 3: it must be text in quotes"),
        ({"dedup_key": "id"}, "dedup_key needs dedup_horizon"),
        ({"dedup_horizon": "1m"}, "dedup_horizon needs dedup_key"),
    ],
)
def test_a_wrong_value_names_the_value_and_the_rule(mapping, what):
    assert what in refusal(mapping)


def test_the_error_of_a_wrong_value_ends_with_what_to_do():
    assert refusal({"watermark_lag": 5}).endswith(
        'watermark_lag is how far the watermark stays behind the greatest event time, e.g. "5m".'
    )
