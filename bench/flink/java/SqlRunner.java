import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/**
 * Runs SQL scripts on a Flink cluster in this process: one task manager with two slots.
 *
 * <p>Reads paths of scripts from standard input, one in a line, and answers each with a line: {@code
 * ok MS}, the net runtime of the job as Flink reports it, or {@code error MESSAGE}. The cluster lives
 * until the input ends, so that only the first scripts meet code that is not compiled yet.
 *
 * <p>A script has {@code SET 'key' = 'value'} for the settings of its job, any number of other
 * statements, and one INSERT, whose end is awaited. Statements end with a semicolon at the end of a
 * line.
 */
public final class SqlRunner {
  private static final Pattern SET = Pattern.compile("SET\\s+'([^']+)'\\s*=\\s*'([^']*)'");

  public static void main(String[] arguments) throws Exception {
    try (MiniCluster cluster = startCluster();
        BufferedReader requests =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      System.out.println("ready");
      String script;
      while ((script = requests.readLine()) != null) {
        System.out.println(answer(cluster, Path.of(script)));
      }
    }
  }

  private static MiniCluster startCluster() throws Exception {
    Configuration settings = new Configuration();
    settings.setString("rest.address", "localhost");
    settings.setString("rest.bind-port", "0");
    settings.setString("taskmanager.memory.managed.size", "2g");
    settings.setString("taskmanager.memory.network.min", "256m");
    settings.setString("taskmanager.memory.network.max", "256m");
    MiniCluster cluster =
        new MiniCluster(
            new MiniClusterConfiguration.Builder()
                .setConfiguration(settings)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(2)
                .build());
    cluster.start();
    return cluster;
  }

  private static String answer(MiniCluster cluster, Path script) {
    try {
      return "ok " + run(cluster, Files.readString(script));
    } catch (Exception failure) {
      failure.printStackTrace();
      Throwable cause = failure;
      while (cause.getCause() != null) {
        cause = cause.getCause();
      }
      return ("error " + cause).replaceAll("\\s+", " ");
    }
  }

  private static long run(MiniCluster cluster, String script) throws Exception {
    URI address = cluster.getRestAddress().get();
    Configuration settings = new Configuration();
    settings.setString("execution.target", "remote");
    settings.setString("rest.address", address.getHost());
    settings.setString("rest.port", String.valueOf(address.getPort()));
    TableEnvironment tables = null;
    TableResult inserted = null;
    for (String statement : script.split(";\\s*\\n")) {
      Matcher set = SET.matcher(statement.strip());
      if (set.matches()) {
        settings.setString(set.group(1), set.group(2));
        continue;
      }
      if (statement.isBlank()) {
        continue;
      }
      if (tables == null) {
        tables =
            TableEnvironment.create(
                EnvironmentSettings.newInstance()
                    .inStreamingMode()
                    .withConfiguration(settings)
                    .build());
      }
      TableResult result = tables.executeSql(statement);
      if (result.getJobClient().isPresent()) {
        inserted = result;
      } else if (statement.strip().startsWith("EXPLAIN")) {
        result.print();
      }
    }
    if (inserted == null) {
      throw new IllegalArgumentException("the script has no INSERT");
    }
    return inserted.getJobClient().get().getJobExecutionResult().get().getNetRuntime();
  }
}
