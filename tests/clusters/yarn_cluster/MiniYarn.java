import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** Hadoop's own small YARN, two nodes in one process; writes its settings into the folder that is named, then waits. */
public class MiniYarn {
  public static void main(String[] arguments) throws Exception {
    YarnConfiguration settings = new YarnConfiguration();
    settings.set("fs.defaultFS", "file:///");
    settings.setInt("yarn.scheduler.minimum-allocation-mb", 128);
    settings.setInt("yarn.nodemanager.resource.memory-mb", 4096);
    settings.setInt("yarn.nodemanager.resource.cpu-vcores", 8);
    settings.setBoolean("yarn.scheduler.include-port-in-node-name", true);
    settings.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
    settings.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
    settings.setBoolean("yarn.nodemanager.disk-health-checker.enable", false);
    MiniYARNCluster cluster = new MiniYARNCluster("headwater", 2, 1, 1);
    cluster.init(settings);
    cluster.start();
    File aside = new File(arguments[0], "aside.xml");
    try (OutputStream out = new FileOutputStream(aside)) {
      cluster.getConfig().writeXml(out);
    }
    aside.renameTo(new File(arguments[0], "yarn-site.xml"));
    Thread.sleep(Long.MAX_VALUE);
  }
}
