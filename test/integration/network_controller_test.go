// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/controllers/link/installation"
	"liqo.io/federation/controllers/link/replication"
	"liqo.io/federation/controllers/link/tunnel"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

// networked is one of two clusters that agree upon a tunnel. Each has a federation API server of
// its own, and both use the same kube-apiserver.
type networked struct {
	id, peer, installation string
	// admin is a client of the cluster's federation API with all permissions.
	admin versioned.Interface
}

// runNetwork runs the controller of tunnels of the cluster until the test ends, with the
// permissions of an account.
func (n *networked) runNetwork(t *testing.T, server *framework.Server, account *rest.Config, settings tunnel.Settings) {
	t.Helper()
	runManager(t, withFederation(t, account, server), func(manager ctrl.Manager) error {
		installed, err := installation.NewCache(manager, n.installation)
		if err != nil {
			return err
		}
		reconciler := &tunnel.Reconciler{
			Local: &tunnel.Local{
				Client: manager.GetClient(), Clock: clock.RealClock{}, ClusterID: n.id, Namespace: n.installation,
				Settings: settings,
			},
			Live: manager.GetAPIReader(), Events: &record.FakeRecorder{}, Networking: v1alpha1.NetworkingTunnel,
		}
		return reconciler.SetupWithManager(manager, installed)
	})
}

// withFederation returns the configuration of a client that sends requests for the federation API
// to server, and all other requests to kube-apiserver.
func withFederation(t *testing.T, account *rest.Config, server *framework.Server) *rest.Config {
	t.Helper()
	federation, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	connection := rest.CopyConfig(account)
	connection.Wrap(func(next http.RoundTripper) http.RoundTripper { return &federationRoute{next, federation} })
	return connection
}

// federationRoute sends requests for the federation API to a server.
type federationRoute struct {
	next   http.RoundTripper
	server *url.URL
}

func (r *federationRoute) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.HasPrefix(request.URL.Path, "/apis/"+v1alpha1.GroupName) {
		request = request.Clone(request.Context())
		request.URL.Scheme, request.URL.Host = r.server.Scheme, r.server.Host
	}
	return r.next.RoundTrip(request)
}

// peerWith creates the objects of a peering with the cluster with this ID.
func (n *networked) peerWith(t *testing.T, peerID string, status v1alpha1.ForeignClusterStatus) {
	t.Helper()
	clusters := n.admin.FederationV1alpha1().ForeignClusters()
	must(t)(clusters.Create(t.Context(),
		&v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: n.peer},
			Spec: v1alpha1.ForeignClusterSpec{ClusterID: peerID}}, metav1.CreateOptions{}))
	t.Cleanup(func() {
		ctx := context.Background()
		if err := clusters.Delete(ctx, n.peer, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		_, err := clusters.Patch(ctx, n.peer, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	n.patch(t, fmt.Sprintf(`{"status":{"outgoingPeering":%q,"incomingPeering":%q}}`, status.OutgoingPeering,
		status.IncomingPeering), "status")
}

func (n *networked) patch(t *testing.T, patch string, subresources ...string) {
	t.Helper()
	must(t)(n.admin.FederationV1alpha1().ForeignClusters().Patch(t.Context(), n.peer, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}, subresources...))
}

func (n *networked) tunnel(ctx context.Context) (*v1alpha1.TunnelEndpoint, error) {
	return n.admin.FederationV1alpha1().TunnelEndpoints(n.installation).Get(ctx, n.peer, metav1.GetOptions{})
}

// publishRanges creates the ClusterInfo of a cluster, as its controller does.
func publishRanges(t *testing.T, admin versioned.Interface, ranges ...v1alpha1.ClusterRange) {
	t.Helper()
	infos := admin.FederationV1alpha1().ClusterInfos()
	info, err := infos.Create(t.Context(),
		&v1alpha1.ClusterInfo{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterInfoName}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := infos.Delete(context.Background(), v1alpha1.ClusterInfoName, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	info.Status.Ranges = ranges
	must(t)(infos.UpdateStatus(t.Context(), info, metav1.UpdateOptions{}))
}

// The controllers have the permissions of the chart. Two clusters with the same CIDRs agree upon a
// tunnel. The status that the gateway of one writes is reflected to the other. When the network is
// disabled, all objects are deleted.
func TestTwoClustersAgreeUponATunnel(t *testing.T) {
	env := framework.Get(t)
	installRoles(t, env)
	servers := []*framework.Server{env.StartServer(t, env.MakeDataDir(t)), env.StartServer(t, env.MakeDataDir(t))}
	rome := &networked{id: thisID, peer: "pavia", installation: framework.Namespace,
		admin: federationOf(t, servers[0].Client(env.Admin))}
	milan := &networked{id: thatID, peer: "lodi", installation: env.MakeNamespace(t),
		admin: federationOf(t, servers[1].Client(env.Admin))}
	peerNamespace := makeNamespaceOf(t, env, peerOf(rome.peer), v1alpha1.RolePeer, rome.peer)
	tenantNamespace := makeNamespaceOf(t, env, tenantOf(milan.peer), v1alpha1.RoleTenant, milan.peer)
	const user = "peer-of-pavia"
	must(t)(env.Kube.RbacV1().RoleBindings(tenantNamespace).Create(t.Context(),
		bindingOf("federation-tenant", userSubject(user)), metav1.CreateOptions{}))
	keyOfRome, keyOfMilan := rome.publishKey(t, env, 1), milan.publishKey(t, env, 2)

	settings := tunnel.DefaultSettings()
	settings.Endpoints = []string{"gateway.example.org:51820"}
	for _, n := range []*networked{rome, milan} {
		publishRanges(t, n.admin, v1alpha1.ClusterRange{Use: v1alpha1.RangeOfPods, CIDR: "10.0.0.0/16",
			Source: v1alpha1.SourceKubeadm})
	}
	peers := remote.NewPeersWith(func(*remote.Identity) (*remote.Clients, error) {
		return &remote.Clients{Federation: fastClient(t, servers[1].Client(env.User(t, user, v1alpha1.PeerGroup)))}, nil
	})
	milan.runNetwork(t, servers[1], env.Admin, settings)
	manager := env.ServiceAccount(t, framework.Namespace, controllerManager)
	rome.runNetwork(t, servers[0], manager, settings)
	runManager(t, withFederation(t, manager, servers[0]), func(manager ctrl.Manager) error {
		replicator := &replication.Replicator{Client: manager.GetClient(), Peers: peers, ClusterName: milan.peer}
		return replicator.SetupWithManager(manager)
	})
	milan.peerWith(t, rome.id, v1alpha1.ForeignClusterStatus{OutgoingPeering: v1alpha1.PeeringNone,
		IncomingPeering: v1alpha1.PeeringEstablished})
	rome.peerWith(t, milan.id, v1alpha1.ForeignClusterStatus{OutgoingPeering: v1alpha1.PeeringEstablished,
		IncomingPeering: v1alpha1.PeeringNone})
	must(t)(rome.admin.FederationV1alpha1().ResourceRequests(peerNamespace).Create(t.Context(), &v1alpha1.ResourceRequest{
		ObjectMeta: metav1.ObjectMeta{Name: milan.peer},
		Spec:       v1alpha1.ResourceRequestSpec{Features: compatibility.Features()},
	}, metav1.CreateOptions{}))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() { peers.Remove(rome.peer); cancel() })
	if err := peers.Set(ctx, rome.peer, &remote.Identity{Namespace: tenantNamespace}); err != nil {
		t.Fatal(err)
	}
	requests := milan.admin.FederationV1alpha1().ResourceRequests(tenantNamespace)
	until(t, "the provider's answer to the request", func(ctx context.Context) (bool, error) {
		_, err := requests.Patch(ctx, milan.peer, types.MergePatchType,
			[]byte(`{"status":{"phase":"Accepted","observedGeneration":1,"features":["Tunnel"]}}`),
			metav1.PatchOptions{}, "status")
		return err == nil, ignoreNotFound(err)
	})

	for _, n := range []*networked{rome, milan} {
		until(t, "the tunnel of "+n.peer, func(ctx context.Context) (bool, error) {
			_, err := n.tunnel(ctx)
			return err == nil, ignoreNotFound(err)
		})
	}
	one, err := rome.tunnel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, err := milan.tunnel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]v1alpha1.CIDRMapping{one.Spec.Local, one.Spec.Remote},
		[][]v1alpha1.CIDRMapping{other.Spec.Remote, other.Spec.Local}); diff != "" {
		t.Errorf("the clusters disagree:\n%s", diff)
	}
	if one.Spec.Remote[0].Mapped == "10.0.0.0/16" || len(one.Spec.Remote) != 2 {
		t.Errorf("the other cluster's ranges are mapped to %v", one.Spec.Remote)
	}
	// Neither cluster has a configured external CIDR, so each allocates one.
	for i, n := range []*networked{rome, milan} {
		external := []*v1alpha1.TunnelEndpoint{one, other}[i].Spec.Local[1].CIDR
		pools := n.admin.FederationV1alpha1().AddressPools()
		taken, err := pools.Get(t.Context(), v1alpha1.ExternalAddressPool, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		reserving, err := pools.Get(t.Context(), v1alpha1.DefaultAddressPool, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(taken.Spec.CIDRs, []string{external}) || !slices.Contains(reserving.Spec.Reserved, external) {
			t.Errorf("%s announced, %v allocated, %v reserved", external, taken.Spec.CIDRs, reserving.Spec.Reserved)
		}
	}
	must(t)(rome.admin.FederationV1alpha1().TunnelEndpoints(rome.installation).Patch(t.Context(), rome.peer,
		types.MergePatchType,
		[]byte(fmt.Sprintf(`{"status":{"phase":"Connected","observedGeneration":%d}}`, one.Generation)),
		metav1.PatchOptions{}, "status"))
	awaitNetworking(t, rome, v1alpha1.PeeringEstablished)

	if one.Spec.PublicKey != keyOfMilan || other.Spec.PublicKey != keyOfRome {
		t.Errorf("the tunnels have the keys %s and %s", one.Spec.PublicKey, other.Spec.PublicKey)
	}
	// The account of the controllers must not read or create the Secret with the private key.
	secrets := kubeOf(t, manager).CoreV1().Secrets(rome.installation)
	_, errGet := secrets.Get(t.Context(), v1alpha1.WireGuardSecret, metav1.GetOptions{})
	_, errCreate := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.WireGuardSecret}, Type: v1alpha1.SecretTypeWireGuard,
	}, dryCreate)
	if !apierrors.IsForbidden(errGet) || !apierrors.IsForbidden(errCreate) {
		t.Errorf("the controllers get %v and %v", errGet, errCreate)
	}

	rome.patch(t, `{"spec":{"networking":"None"}}`)
	for _, n := range []*networked{rome, milan} {
		until(t, "the end of the tunnel of "+n.peer, func(ctx context.Context) (bool, error) {
			_, err := n.tunnel(ctx)
			if !apierrors.IsNotFound(err) {
				return false, err
			}
			mappings, err := n.admin.FederationV1alpha1().AddressMappings(n.installation).List(ctx,
				metav1.ListOptions{LabelSelector: v1alpha1.LabelForeignCluster + "=" + n.peer})
			return err == nil && len(mappings.Items) == 0, err
		})
	}
	until(t, "the deletion of rome's NetworkConfigs", func(ctx context.Context) (bool, error) {
		ofRome, err := rome.admin.FederationV1alpha1().NetworkConfigs(peerNamespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(ofRome.Items) > 0 {
			return false, err
		}
		ofMilan, err := milan.admin.FederationV1alpha1().NetworkConfigs(tenantNamespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(ofMilan.Items) == 1 && ofMilan.Items[0].Name == v1alpha1.NetworkConfigOfProvider, err
	})
	awaitNetworking(t, milan, v1alpha1.PeeringPending)
}

// publishKey publishes a public key, which consists of a repeated byte, as the gateway of the cluster does. It returns
// the key.
func (n *networked) publishKey(t *testing.T, env *framework.Environment, repeated byte) string {
	t.Helper()
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{repeated}, 32))
	configMaps := env.Kube.CoreV1().ConfigMaps(n.installation)
	must(t)(configMaps.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.WireGuardConfigMap},
		Data:       map[string]string{v1alpha1.WireGuardPublicKey: key},
	}, metav1.CreateOptions{}))
	undo(t, func(ctx context.Context) error {
		return configMaps.Delete(ctx, v1alpha1.WireGuardConfigMap, metav1.DeleteOptions{})
	})
	return key
}

func awaitNetworking(t *testing.T, n *networked, phase v1alpha1.PeeringPhase) {
	t.Helper()
	until(t, fmt.Sprintf("networking with %s is %s", n.peer, phase), func(ctx context.Context) (bool, error) {
		fc, err := n.admin.FederationV1alpha1().ForeignClusters().Get(ctx, n.peer, metav1.GetOptions{})
		return err == nil && fc.Status.Networking == phase, err
	})
}
