// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/clientset/versioned/scheme"
	"liqo.io/federation/test/integration/framework"
)

var update = flag.Bool("update", false, "update the golden files")

// stored returns all keys and values in the embedded etcd of a server.
func stored(t *testing.T, server *framework.Server) map[string][]byte {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" +
		filepath.Join(server.DataDir, "etcd.sock")}, DialTimeout: soon})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	response, err := client.Get(t.Context(), "", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, pair := range response.Kvs {
		all[string(pair.Key)] = pair.Value
	}
	return all
}

// A newer version of the server must find and decode the objects that an older one stored. Tests of
// the API types check the field numbers of protobuf.
func TestKeysAndFieldsInStorageNeverChange(t *testing.T) {
	env := framework.Get(t)
	server := env.StartServer(t, env.MakeDataDir(t))
	client, err := versioned.NewForConfig(server.Client(env.Admin))
	if err != nil {
		t.Fatal(err)
	}
	const namespace = "golden"
	if _, err := env.Kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	secrets := createOneOfEach(t, env, server, client, namespace)

	const golden = "testdata/storage.golden"
	var got bytes.Buffer
	all := stored(t, server)
	for _, key := range sortedKeys(all) {
		if strings.Contains(key, "/addressledgers/") {
			// These objects have reservations that are still pending. Another test checks their
			// format.
			continue
		}
		value := all[key]
		if !bytes.HasPrefix(value, []byte("k8s\x00")) {
			t.Errorf("%s is not stored as protobuf: %.60q", key, value)
		}
		line := fmt.Sprintf("%s\n  %s\n", key, withoutWhatChanges(t, value))
		for secret, name := range secrets {
			line = strings.ReplaceAll(line, secret, name)
		}
		got.WriteString(line)
	}
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("stored objects (-want +got); if it is intended, document how old data is read, then run with -update:\n%s",
			diff)
	}
}

// createOneOfEach creates an object of every kind. It returns the strings in them that differ
// between runs, each with a placeholder.
func createOneOfEach(t *testing.T, env *framework.Environment, server *framework.Server, client versioned.Interface,
	namespace string) map[string]string {
	t.Helper()
	ctx, options := t.Context(), metav1.CreateOptions{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const clusterID = "8b0f2e0a-0c3d-4a55-9d4d-3d4a3a1f7c11"
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"),
		corev1.ResourceMemory: resource.MustParse("4Gi")}
	federation := client.FederationV1alpha1()

	token, err := federation.PeeringTokens().Create(ctx, newToken("for-rome"), options)
	must(err)
	_, err = federation.ForeignClusters().Create(ctx,
		&v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"},
			Spec: v1alpha1.ForeignClusterSpec{ClusterID: clusterID, Server: "https://milan.example.com:6443"}}, options)
	must(err)
	_, err = federation.ResourceRequests(namespace).Create(ctx,
		&v1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Name: "rome"},
			Spec: v1alpha1.ResourceRequestSpec{Resources: resources}}, options)
	must(err)
	_, err = federation.ResourceOffers(namespace).Create(ctx,
		&v1alpha1.ResourceOffer{ObjectMeta: metav1.ObjectMeta{Name: "milan"},
			Spec: v1alpha1.ResourceOfferSpec{ClusterID: clusterID, Resources: resources}}, options)
	must(err)
	_, err = federation.VirtualNodes(namespace).Create(ctx,
		&v1alpha1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: "milan"},
			Spec: v1alpha1.VirtualNodeSpec{ClusterID: clusterID, NodeName: "liqo-milan", OfferName: "milan",
				Resources: resources}}, options)
	must(err)
	_, err = federation.NamespaceOffloadings(namespace).Create(ctx,
		&v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NamespaceOffloadingName}}, options)
	must(err)
	_, err = federation.NamespaceMaps(namespace).Create(ctx,
		&v1alpha1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "rome"},
			Spec: v1alpha1.NamespaceMapSpec{Namespaces: []v1alpha1.NamespaceMapping{{Name: "shop",
				RemoteName: "shop-rome"}}}}, options)
	must(err)
	_, err = federation.ShadowPods(namespace).Create(ctx,
		&v1alpha1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: v1alpha1.ShadowPodSpec{Pod: shadowPodSpec()}}, options)
	must(err)
	_, err = federation.ShadowVolumeClaims(namespace).Create(ctx, newShadowVolumeClaim("data", "fast", "1Gi"), options)
	must(err)
	_, err = federation.ShadowEndpointSlices(namespace).Create(ctx, &v1alpha1.ShadowEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "web-abcde", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Spec: v1alpha1.ShadowEndpointSliceSpec{
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Port: ptr.To[int32](80)}},
			Endpoints: []v1alpha1.ShadowEndpoint{{Addresses: []string{"10.8.0.1"},
				Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		},
	}, options)
	must(err)

	_, err = federation.AddressPools().Create(ctx,
		&v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "default"},
			Spec: v1alpha1.AddressPoolSpec{CIDRs: []string{"10.0.0.0/8"}, Reserved: []string{"10.96.0.0/12"}}}, options)
	must(err)
	_, err = federation.AddressMappings(namespace).Create(ctx,
		&v1alpha1.AddressMapping{ObjectMeta: metav1.ObjectMeta{Name: "milan-pods"},
			Spec: v1alpha1.AddressMappingSpec{ClusterID: clusterID, CIDR: "10.96.0.0/16"}}, options)
	must(err)
	awaitPool(t, client, "default", func(status v1alpha1.AddressPoolStatus) bool { return status.Mappings == 1 })

	const key = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="
	_, err = federation.NetworkConfigs(namespace).Create(ctx, &v1alpha1.NetworkConfig{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NetworkConfigOfProvider},
		Spec: v1alpha1.NetworkConfigSpec{
			ClusterID: clusterID, PodCIDRs: []string{"10.244.0.0/16"}, ExternalCIDRs: []string{"10.70.0.0/16"},
			PublicKey: key, Endpoints: []string{"milan.example.com:51820"}, MTU: 1420,
		},
	}, options)
	must(err)
	_, err = federation.TunnelEndpoints(namespace).Create(ctx, &v1alpha1.TunnelEndpoint{
		ObjectMeta: metav1.ObjectMeta{Name: "milan"},
		Spec: v1alpha1.TunnelEndpointSpec{
			ClusterID: clusterID, PublicKey: key, Endpoints: []string{"milan.example.com:51820"}, MTU: 1420,
			Local:  []v1alpha1.CIDRMapping{{CIDR: "10.244.0.0/16", Mapped: "10.243.0.0/16"}},
			Remote: []v1alpha1.CIDRMapping{{CIDR: "10.244.0.0/16", Mapped: "10.255.0.0/16"}},
		},
	}, options)
	must(err)

	name := "invitation-" + string(token.UID)
	bearer := env.ServiceAccount(t, framework.InvitationNamespace, name)
	env.Grant(t, "system:serviceaccount:"+framework.InvitationNamespace+":"+name, "",
		rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"identityrequests"},
			Verbs: []string{"create"}})
	asBearer, err := versioned.NewForConfig(server.Client(bearer))
	must(err)
	request := signingRequest(t, string(token.UID))
	_, err = asBearer.FederationV1alpha1().IdentityRequests().Create(ctx, &v1alpha1.IdentityRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.IdentityRequestSpec{ClusterID: clusterID, ClusterName: "rome", Request: request},
	}, options)
	must(err)
	encoded, err := json.Marshal(request)
	must(err)
	return map[string]string{string(token.UID): "UID-OF-TOKEN", string(encoded): `"REQUEST"`}
}

func shadowPodSpec() corev1.PodSpec {
	no := false
	return corev1.PodSpec{
		AutomountServiceAccountToken: &no,
		EnableServiceLinks:           &no,
		Containers:                   []corev1.Container{{Name: "web", Image: "web:1"}},
	}
}

// signingRequest returns a PEM encoded certificate request of a consumer.
func signingRequest(t *testing.T, commonName string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: commonName, Organization: []string{v1alpha1.PeerGroup}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// withoutWhatChanges returns a stored object as JSON, with placeholders for values that differ
// between runs.
func withoutWhatChanges(t *testing.T, value []byte) []byte {
	t.Helper()
	typed, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), value)
	if err != nil {
		t.Fatalf("%v: %q", err, value)
	}
	encoded, err := json.Marshal(typed)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(encoded, &object); err != nil {
		t.Fatal(err)
	}
	metadata := object["metadata"].(map[string]any)
	metadata["uid"], metadata["creationTimestamp"] = "UID", "TIME"
	delete(metadata, "managedFields")
	out, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sortedKeys(m map[string][]byte) []string {
	return slices.Sorted(maps.Keys(m))
}

// StorageKeyNoTraversal: whatever its name is, an object is stored below the key of its resource,
// and names in requests never lead to other keys.
func TestStorageKeyNoTraversal(t *testing.T) {
	env := framework.Get(t)
	namespace := env.MakeNamespace(t)
	// No request below may return this object.
	env.Kubectl(t, offloadingManifest, "apply", "-n", namespace, "-f", "-")
	if _, err := admin(t).FederationV1alpha1().PeeringTokens().Create(t.Context(), newToken("treasure"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The record of compactions, which changes every five minutes, is omitted.
	keys := func() []string {
		return slices.DeleteFunc(sortedKeys(stored(t, env.Server)), func(key string) bool { return key == "compact_rev_key" })
	}
	before := keys()

	names := []string{
		".", "..", "...", "../peeringtokens/treasure", "../../federation.liqo.io/peeringtokens/treasure",
		"..%2fpeeringtokens%2ftreasure",
		"%2e%2e%2fpeeringtokens%2ftreasure", "%2e%2e/peeringtokens/treasure", "x%2f..%2f..%2fpeeringtokens%2ftreasure",
		"%2e", "%2e%2e",
		"%252e%252e%252fpeeringtokens%252ftreasure", "treasure%2f", "%2ftreasure", "treasure%00", "treasure%0a", "%00",
		"tre%2fasure", "..\\peeringtokens",
		"*", "%2a", "TREASURE", "tr%C3%A9sor", "%", "%zz", "%c0%af", strings.Repeat("a", 300),
	}
	roads := map[string]*rest.Config{"aggregator": env.Admin, "server": env.Server.Client(env.Admin)}
	for road, config := range roads {
		for _, name := range names {
			for _, path := range []string{
				groupPath + "/foreignclusters/" + name,
				groupPath + "/foreignclusters/" + name + "/status",
				groupPath + "/namespaces/" + namespace + "/shadowpods/" + name,
				groupPath + "/namespaces/" + name + "/shadowpods/x",
				groupPath + "/namespaces/" + name + "/shadowpods",
				groupPath + "/namespaces/" + name + "/namespaceoffloadings/offloading",
			} {
				for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut, http.MethodPatch} {
					code, body := send(t, config, method, path, map[string]string{"Content-Type": contentType(method)},
						object(path, name))
					if code < 400 || code >= 500 {
						t.Errorf("%s %s of the %s: got %d: %.200s", method, path, road, code, body)
					}
				}
			}
			for resource, namespaced := range map[string]bool{"foreignclusters": false, "namespacemaps": true} {
				path := groupPath + "/" + resource
				if namespaced {
					path = groupPath + "/namespaces/" + namespace + "/" + resource
				}
				literal, err := url.PathUnescape(name)
				if err != nil {
					literal = name
				}
				for _, body := range []string{object(path, literal),
					strings.ReplaceAll(object(path, literal+"/"), `"name"`, `"generateName"`)} {
					code, answer := send(t, config, http.MethodPost, path, map[string]string{"Content-Type": "application/json"}, body)
					if code < 400 || code >= 500 {
						t.Errorf("POST %s of the %s: got %d: %.200s", body, road, code, answer)
					}
				}
			}
		}
	}

	after := keys()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("keys changed (-before +after):\n%s", diff)
	}
	key := regexp.MustCompile(`^/registry/federation\.liqo\.io/[a-z]+(/[a-z0-9]([-a-z0-9.]*[a-z0-9])?){1,2}$`)
	for _, got := range after {
		if !key.MatchString(got) {
			t.Errorf("key %q belongs to no object", got)
		}
	}
}

func contentType(method string) string {
	if method == http.MethodPatch {
		return "application/merge-patch+json"
	}
	return "application/json"
}

// object returns a body of the kind that belongs to a path.
func object(path, name string) string {
	kind := "ShadowPod"
	switch {
	case strings.Contains(path, "/foreignclusters"):
		kind = "ForeignCluster"
	case strings.Contains(path, "/namespacemaps"):
		kind = "NamespaceMap"
	case strings.Contains(path, "/namespaceoffloadings"):
		kind = "NamespaceOffloading"
	}
	encoded, err := json.Marshal(name)
	if err != nil {
		panic(err)
	}
	return `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"` + kind + `","metadata":{"name":` +
		string(encoded) + `},"spec":{}}`
}

// rawRequest returns a request whose path is not normalized.
func rawRequest(t *testing.T, config *rest.Config, method, path, body string) *http.Request {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, config.Host, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.URL = &url.URL{Scheme: target.Scheme, Host: target.Host, Opaque: path}
	return request
}

func TestNothingAcknowledgedIsLostWhenTheServerIsKilled(t *testing.T) {
	env := framework.Get(t)
	for name, args := range storages(t, env) {
		t.Run(name, func(t *testing.T) {
			server := env.StartServer(t, env.MakeDataDir(t), args(t)...)
			history := startHistory(t, server.Client(env.Admin), 8)
			for range 4 {
				history.reach(100)
				server.Stop(t, syscall.SIGKILL)
				server.Start(t)
			}
			history.reach(100)
			history.finish()
		})
	}
}

func TestNothingAcknowledgedIsLostWhenAMemberOfEtcdIsKilled(t *testing.T) {
	env := framework.Get(t)
	etcd := env.StartEtcd(t, 3)
	server := env.StartServer(t, env.MakeDataDir(t), etcd.ServerArgs()...)
	history := startHistory(t, server.Client(env.Admin), 8)
	for i := range 3 {
		history.reach(100)
		etcd.Kill(t, i)
		// With one member down, the other two members must serve, whether or not the leader was
		// killed.
		history.reach(100)
		etcd.Start(t, i)
	}
	history.reach(100)
	history.finish()
}

func TestServerStopsOnSIGTERMAndKeepsItsData(t *testing.T) {
	env := framework.Get(t)
	server := env.StartServer(t, env.MakeDataDir(t))
	client, err := versioned.NewForConfig(server.Client(env.Admin))
	if err != nil {
		t.Fatal(err)
	}
	tokens := client.FederationV1alpha1().PeeringTokens()
	created, err := tokens.Create(t.Context(), newToken("kept"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := tokens.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	started := time.Now()
	server.Stop(t, syscall.SIGTERM)
	t.Logf("stopped after %s", time.Since(started).Round(time.Millisecond))
	server.Start(t)
	got, err := tokens.Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.UID != created.UID || got.ResourceVersion != created.ResourceVersion {
		t.Errorf("got uid %s at %s, want %s at %s", got.UID, got.ResourceVersion, created.UID, created.ResourceVersion)
	}
}
