"""How the JVM of the tests runs."""

from __future__ import annotations

# Tests run most of the JVM's code only a few times, so the quick compiler alone is used: a third
# less CPU time. By itself it would get a cache of 48 MB for its code, and stop when that is full.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=400m -XX:+UseSerialGC -Xmn1g"
MEMORY = "2g"
