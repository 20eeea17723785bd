// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"liqo.io/federation/hack/playground/build"
	"liqo.io/federation/hack/playground/state"
)

func testCluster(t *testing.T, workers, fakes int) *Cluster {
	t.Helper()
	c := &state.Cluster{
		Name:        "rome",
		NodeCIDR:    netip.MustParsePrefix("172.30.1.0/24"),
		PodCIDR:     netip.MustParsePrefix("10.244.0.0/16"),
		ServiceCIDR: netip.MustParsePrefix("10.96.0.0/16"),
		FakeNodes:   fakes,
	}
	for index := range workers + 1 {
		address, err := state.Address(c.NodeCIDR, index+2)
		if err != nil {
			t.Fatal(err)
		}
		pods, err := state.Subnet(c.PodCIDR, 24, index)
		if err != nil {
			t.Fatal(err)
		}
		name := []string{"rome-control-plane", "rome-worker-1"}[index]
		c.Nodes = append(c.Nodes, &state.Node{Name: name, Index: index, Address: address, PodCIDR: pods})
	}
	i := &state.Instance{Name: "test", Dir: t.TempDir(), Clusters: []*state.Cluster{c}}
	return &Cluster{Cluster: c, Instance: i, Tools: &build.Set{}}
}

// object is the part of a Kubernetes object that the tests read.
type object struct {
	Kind     string
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Spec struct {
		PodCIDR   string
		ClusterIP string
		Taints    []struct{ Key, Effect string }
	}
	Data                 map[string]string
	VolumeBindingMode    string
	AllowVolumeExpansion bool
	Parameters           map[string]string
}

func objects(t *testing.T, c *Cluster) map[string]object {
	t.Helper()
	manifests, err := c.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]object{}
	for _, document := range strings.Split(string(manifests), "\n---\n") {
		data, err := yaml.YAMLToJSONStrict([]byte(document))
		if err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		var o object
		if err := json.Unmarshal(data, &o); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if o.Kind != "" {
			out[o.Kind+"/"+o.Metadata.Name] = o
		}
	}
	return out
}

func TestCoreDNSHasThePluginsOfItsCorefile(t *testing.T) {
	source, err := os.ReadFile("../modules/coredns/main.go")
	if err != nil {
		t.Fatal(err)
	}
	var imported []string
	for _, match := range regexp.MustCompile(`_ "github.com/coredns/coredns/plugin/(\w+)"`).FindAllSubmatch(source, -1) {
		imported = append(imported, string(match[1]))
	}
	corefile := objects(t, testCluster(t, 1, 0))["ConfigMap/coredns"].Data["Corefile"]
	var used []string
	for _, match := range regexp.MustCompile(`(?m)^    (\w+)`).FindAllStringSubmatch(corefile, -1) {
		used = append(used, match[1])
	}
	slices.Sort(used)
	if diff := cmp.Diff(used, imported); diff != "" {
		t.Errorf("plugins of modules/coredns/main.go (-used +imported):\n%s", diff)
	}
}

func TestManifestsDescribeNodesAndDNS(t *testing.T) {
	got := objects(t, testCluster(t, 1, 2))
	for _, name := range []string{"Deployment/coredns", "DaemonSet/local-provisioner", "StorageClass/local",
		"Node/rome-fake-1", "Node/rome-fake-2"} {
		if _, ok := got[name]; !ok {
			t.Errorf("there is no %s", name)
		}
	}
	if ip := got["Service/kube-dns"].Spec.ClusterIP; ip != "10.96.0.10" {
		t.Errorf("DNS is at %s", ip)
	}
	worker := got["Node/rome-worker-1"]
	if worker.Spec.PodCIDR != "10.244.1.0/24" || len(worker.Spec.Taints) != 0 {
		t.Errorf("the worker is %+v", worker)
	}
	if taints := got["Node/rome-control-plane"].Spec.Taints; len(taints) != 1 ||
		taints[0].Key != "node-role.kubernetes.io/control-plane" {
		t.Errorf("the control plane has the taints %v", taints)
	}
	fake := got["Node/rome-fake-1"]
	if fake.Metadata.Labels["type"] != "kwok" || len(fake.Spec.Taints) != 1 ||
		fake.Spec.Taints[0].Key != "playground.liqo.io/fake" {
		t.Errorf("the fake node is %+v", fake)
	}
}

func TestStorageClassesHaveBindingModeAndKind(t *testing.T) {
	got := objects(t, testCluster(t, 1, 0))
	for name, want := range map[string][2]string{
		"local":     {"WaitForFirstConsumer", ""},
		"immediate": {"Immediate", ""},
		"ephemeral": {"WaitForFirstConsumer", "ephemeral"},
		"shared":    {"Immediate", "shared"},
	} {
		class := got["StorageClass/"+name]
		if diff := cmp.Diff(want, [2]string{class.VolumeBindingMode, class.Parameters["kind"]}); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if !class.AllowVolumeExpansion {
			t.Errorf("volumes of class %s cannot be expanded", name)
		}
	}
}

func TestControlPlaneWithoutWorkersRunsPods(t *testing.T) {
	node := objects(t, testCluster(t, 0, 0))["Node/rome-control-plane"]
	if len(node.Spec.Taints) != 0 {
		t.Errorf("the only node has the taints %v", node.Spec.Taints)
	}
}

func TestKubeletConfigDependsOnCgroupVersion(t *testing.T) {
	for _, v1 := range []bool{true, false} {
		var got struct {
			FailCgroupV1 bool
			CgroupRoot   string
			ClusterDNS   []string
			EvictionHard map[string]string
		}
		if err := yaml.Unmarshal(kubeletConfig(kubeletValues{DNS: "10.96.0.10", CgroupRoot: "/a/b", CgroupV1: v1}),
			&got); err != nil {
			t.Fatal(err)
		}
		if got.FailCgroupV1 == v1 || got.CgroupRoot != "/a/b" || !cmp.Equal(got.ClusterDNS, []string{"10.96.0.10"}) {
			t.Errorf("version 1 is %v, got %+v", v1, got)
		}
	}
}

func TestKubeProxyServesNodePortsAtEveryAddressInBothModes(t *testing.T) {
	type config struct {
		Mode              string
		ClusterCIDR       string
		HostnameOverride  string
		NodePortAddresses []string
	}
	for mode, want := range map[string]string{"": "iptables", "iptables": "iptables", "nftables": "nftables"} {
		var got config
		if err := yaml.Unmarshal(kubeProxyConfig("rome-worker-1", mode, netip.MustParsePrefix("10.244.0.0/16"), "/k"),
			&got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(config{want, "10.244.0.0/16", "rome-worker-1", []string{"0.0.0.0/0"}}, got); diff != "" {
			t.Errorf("mode %q: %s", mode, diff)
		}
	}
}

func TestCNIConfigIsJSONWithPodCIDROfTheNode(t *testing.T) {
	data := cniConfig(netip.MustParsePrefix("10.244.3.0/24"))
	if !json.Valid(data) || !strings.Contains(string(data), `"10.244.3.0/24"`) {
		t.Errorf("got %s", data)
	}
}

func TestContainerdConfigNamesItsProgramsAndLimits(t *testing.T) {
	got := string(containerdConfig(containerdValues{Snapshotter: "native", PauseImage: "p:1", Shim: "/s", ConfDir: "/c",
		BinDirs: []string{"/x", "/y"}, RestrictOOM: true}))
	for _, want := range []string{`snapshotter = "native"`, `sandbox = "p:1"`, `runtime_path = "/s"`,
		`bin_dirs = ["/x", "/y", ]`, `conf_dir = "/c"`, "restrict_oom_score_adj = true"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %s in\n%s", want, got)
		}
	}
}

func TestFakePodsAndRealNodesHaveDifferentAddresses(t *testing.T) {
	c := testCluster(t, 1, 1)
	kwok, err := c.kwok()
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Join(kwok.Args, " ")
	if !strings.Contains(args, "--cidr=10.244.192.0/18") {
		t.Errorf("got %s", args)
	}
}

func TestAuditIsOffByDefault(t *testing.T) {
	c := testCluster(t, 0, 0)
	for _, audit := range []bool{false, true} {
		c.Audit = audit
		apiserver, err := c.apiServer()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(apiserver.Args, " "), "--audit-log-path="); got != audit {
			t.Errorf("audit %v, got %v", audit, got)
		}
	}
}

func TestEtcdSyncsToDiskIfDurable(t *testing.T) {
	c := testCluster(t, 0, 0)
	for durable, want := range map[bool]string{false: "--unsafe-no-fsync=true", true: "--unsafe-no-fsync=false"} {
		c.Durable = durable
		if args := c.etcd().Args; !slices.Contains(args, want) {
			t.Errorf("durable %v: got %s", durable, args)
		}
	}
}

func TestKeysAreKeptAndSignedByTheirAuthority(t *testing.T) {
	c := testCluster(t, 0, 0)
	if err := c.WriteKeys(); err != nil {
		t.Fatal(err)
	}
	before := certificate(t, c.pair("apiserver").Cert())
	if err := c.WriteKeys(); err != nil {
		t.Fatal(err)
	}
	after := certificate(t, c.pair("apiserver").Cert())
	if !before.Equal(after) {
		t.Error("writing the keys again replaced them")
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate(t, c.pair("ca").Cert()))
	for _, host := range []string{"kubernetes.default.svc", "10.96.0.1", "172.30.1.2", "127.0.0.1"} {
		if _, err := after.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("the API server as %s: %v", host, err)
		}
	}
	clients := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := certificate(t, c.pair("admin").Cert()).Verify(clients); err != nil {
		t.Errorf("the administrator: %v", err)
	}
	if _, err := certificate(t, c.pair("front-proxy-client").Cert()).Verify(clients); err == nil {
		t.Error("the front proxy is authenticated as a user")
	}
	info, err := os.Stat(c.Instance.Kubeconfig("rome"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig has mode %v", info.Mode())
	}
}

func certificate(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestHasImage(t *testing.T) {
	const list = `REF                TYPE            DIGEST  SIZE  PLATFORMS   LABELS
liqo.io/a:dev      application/x   sha256  1 MiB linux/amd64 io.cri-containerd.image=managed,playground.liqo.io/id=0123
liqo.io/b:dev      application/x   sha256  1 MiB linux/amd64 io.cri-containerd.image=managed
`
	for name, want := range map[string]bool{"liqo.io/a:dev 0123": true, "liqo.io/a:dev 4567": false,
		"liqo.io/b:dev 0123": false, "liqo.io/c:dev 0123": false} {
		tag, id, _ := strings.Cut(name, " ")
		if got := hasImage(list, tag, id); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
