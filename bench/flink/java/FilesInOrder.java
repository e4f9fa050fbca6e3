import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.Optional;
import java.util.PriorityQueue;
import java.util.Set;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.FileSourceSplit;
import org.apache.flink.connector.file.src.assigners.FileSplitAssigner;
import org.apache.flink.core.fs.Path;
import org.apache.flink.formats.parquet.ParquetColumnarRowInputFormat;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.Projection;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.SourceProvider;
import org.apache.flink.table.connector.source.abilities.SupportsProjectionPushDown;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.hadoop.conf.Configuration;

/**
 * The connector {@code files-in-order}: Parquet files of a folder, read in the order of their names.
 *
 * <p>It is Flink's own file source and Parquet reader, which read the files of a folder in any order;
 * then most rows would be late.
 */
public final class FilesInOrder implements DynamicTableSourceFactory {
  private static final ConfigOption<String> PATH =
      ConfigOptions.key("path").stringType().noDefaultValue();

  @Override
  public String factoryIdentifier() {
    return "files-in-order";
  }

  @Override
  public Set<ConfigOption<?>> requiredOptions() {
    return Set.of(PATH);
  }

  @Override
  public Set<ConfigOption<?>> optionalOptions() {
    return Set.of();
  }

  @Override
  public DynamicTableSource createDynamicTableSource(Context context) {
    FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
    helper.validate();
    return new Source(helper.getOptions().get(PATH), context.getPhysicalRowDataType());
  }

  private static final class Source implements ScanTableSource, SupportsProjectionPushDown {
    private static final int ROWS_AT_ONCE = 2048;

    private final String path;
    private DataType produced;

    Source(String path, DataType produced) {
      this.path = path;
      this.produced = produced;
    }

    @Override
    public ChangelogMode getChangelogMode() {
      return ChangelogMode.insertOnly();
    }

    @Override
    public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
      RowType row = (RowType) produced.getLogicalType();
      ParquetColumnarRowInputFormat<FileSourceSplit> format =
          new ParquetColumnarRowInputFormat<>(
              new Configuration(), row, InternalTypeInfo.of(row), ROWS_AT_ONCE, true, true);
      FileSource<RowData> source =
          FileSource.forBulkFileFormat(format, new Path(path))
              .setSplitAssigner(ByName::new)
              .build();
      return SourceProvider.of(source);
    }

    @Override
    public boolean supportsNestedProjection() {
      return false;
    }

    @Override
    public void applyProjection(int[][] fields, DataType producedType) {
      produced = Projection.of(fields).project(produced);
    }

    @Override
    public DynamicTableSource copy() {
      return new Source(path, produced);
    }

    @Override
    public String asSummaryString() {
      return "files in order of " + path;
    }
  }

  private static final class ByName implements FileSplitAssigner {
    private final PriorityQueue<FileSourceSplit> waiting =
        new PriorityQueue<>(
            Comparator.comparing((FileSourceSplit split) -> split.path().toString())
                .thenComparing(FileSourceSplit::offset));

    ByName(Collection<FileSourceSplit> splits) {
      waiting.addAll(splits);
    }

    @Override
    public Optional<FileSourceSplit> getNext(String host) {
      return Optional.ofNullable(waiting.poll());
    }

    @Override
    public void addSplits(Collection<FileSourceSplit> splits) {
      waiting.addAll(splits);
    }

    @Override
    public Collection<FileSourceSplit> remainingSplits() {
      return Arrays.asList(waiting.toArray(new FileSourceSplit[0]));
    }
  }
}
