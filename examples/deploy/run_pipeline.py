"""The command line as an application of ``spark-submit``, which chooses the master and the options.

spark-submit --master .. run_pipeline.py run pipeline.toml --log-format json
"""

from tidegate.cli import main

main()
