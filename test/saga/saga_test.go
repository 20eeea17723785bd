// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package saga

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
)

var (
	accounts        = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	secrets         = corev1.SchemeGroupVersion.WithResource("secrets")
	nodes           = corev1.SchemeGroupVersion.WithResource("nodes")
	roleBindings    = rbacv1.SchemeGroupVersion.WithResource("rolebindings")
	foreignClusters = v1alpha1.SchemeGroupVersion.WithResource("foreignclusters")
	peeringTokens   = v1alpha1.SchemeGroupVersion.WithResource("peeringtokens")
)

// patience is the maximal time until both clusters have reached the requested state. It is shorter
// than the timeout of unpeering, which must not be needed.
const patience = 2 * time.Minute

// world is two clusters, which can reach each other unless cut is set.
type world struct {
	rome, milan *side
	servers     map[string]*side
	cut         atomic.Bool
	authority   *ecdsa.PrivateKey
}

func newWorld(t *testing.T, mode identity.Mode) *world {
	t.Helper()
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{authority: authority, servers: map[string]*side{}}
	for name, id := range map[string]string{"rome": string(uid("1")), "milan": string(uid("2"))} {
		s := &side{name: name, id: id, store: newStore(), mode: mode, world: w}
		s.store.admit = func(k key, changed object) { w.play(t, s, k, changed) }
		server := httptest.NewServer(&apiServer{s.store, func(key, string) bool { return true }})
		t.Cleanup(server.Close)
		s.server = server.URL
		w.servers["https://"+name+".example.com:6443"] = s
		for _, namespace := range []string{installation, invitationNamespace} {
			s.add(t, key{namespaces, "", namespace}, &corev1.Namespace{})
		}
		s.add(t, key{nodes, "", "worker"}, &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourcePods: resource.MustParse("110"),
		}}})
	}
	w.rome, w.milan = w.servers["https://rome.example.com:6443"], w.servers["https://milan.example.com:6443"]
	return w
}

func (s *side) add(t *testing.T, k key, o object) {
	t.Helper()
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if _, err := s.store.create(k, o); err != nil {
		t.Fatal(err)
	}
}

// play performs the parts of Kubernetes that are not in the stores: it signs approved certificate
// requests, and creates the Node when a virtual kubelet is deployed.
func (w *world) play(t *testing.T, s *side, k key, changed object) {
	switch o := changed.(type) {
	case *certificatesv1.CertificateSigningRequest:
		approved := slices.ContainsFunc(o.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateApproved
		})
		if approved && len(o.Status.Certificate) == 0 {
			o.Status.Certificate = w.sign(t, o.Spec.Request)
		}
	case *appsv1.Deployment:
		o.Status.AvailableReplicas = 1
		virtual := o.OwnerReferences[0].Name
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: naming.NodeName(virtual), UID: uid("9"), Labels: map[string]string{
				v1alpha1.LabelType:            v1alpha1.TypeVirtualNode,
				v1alpha1.LabelRemoteClusterID: w.servers["https://"+virtual+".example.com:6443"].id,
			}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady,
				Status: corev1.ConditionTrue}}},
		}
		if _, ok := s.store.objects[key{nodes, "", node.Name}]; !ok && o.DeletionTimestamp == nil {
			_, _ = s.store.create(key{nodes, "", node.Name}, node)
		}
	}
}

func (w *world) sign(t *testing.T, request []byte) []byte {
	block, _ := pem.Decode(request)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Error(err)
		return nil
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: parsed.Subject, NotBefore: time.Now().Add(-time.Minute),
		NotAfter:    time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}, &x509.Certificate{Subject: pkix.Name{CommonName: "cluster"}}, parsed.PublicKey, w.authority)
	if err != nil {
		t.Error(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// invite creates an invitation on the provider, and accepts it on the consumer. bound is the
// cluster ID to which the invitation is bound, if any.
func (w *world) invite(t *testing.T, provider, consumer *side, token string, bound ...string) {
	t.Helper()
	id := uid(token)
	provider.add(t, key{peeringTokens, "", "token-" + token}, &v1alpha1.PeeringToken{
		ObjectMeta: metav1.ObjectMeta{UID: id}, Spec: v1alpha1.PeeringTokenSpec{ConsumerClusterID: strings.Join(bound, "")},
	})
	account := naming.InvitationAccount(id)
	provider.add(t, key{accounts, invitationNamespace, account}, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		OwnerReferences: []metav1.OwnerReference{{Kind: "PeeringToken", Name: "token-" + token, UID: id}},
	}})
	consumer.add(t, key{secrets, invitationNamespace, naming.InvitationSecret(provider.name)}, &corev1.Secret{
		Type: v1alpha1.SecretTypeInvitation,
		Data: map[string][]byte{v1alpha1.InvitationTokenKey: []byte(tokenFor(bearerPrefix+account, time.Hour))},
	})
	spec := func(fc *v1alpha1.ForeignCluster) {
		fc.Spec.ClusterID, fc.Spec.Outgoing = provider.id, v1alpha1.PeeringEnabled
		fc.Spec.Server = "https://" + provider.name + ".example.com:6443"
		fc.Spec.InvitationSecretName = naming.InvitationSecret(provider.name)
	}
	if consumer.change(provider.name, spec) {
		return
	}
	fc := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{v1alpha1.Finalizer}}}
	fc.Spec.Incoming = v1alpha1.PeeringDisabled
	spec(fc)
	consumer.add(t, key{foreignClusters, "", provider.name}, fc)
}

// change updates the spec of a ForeignCluster. It returns false if the ForeignCluster does not
// exist.
func (s *side) change(name string, change func(*v1alpha1.ForeignCluster)) bool {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	k := key{foreignClusters, "", name}
	found, err := s.store.get(k)
	if err != nil {
		return false
	}
	change(found.(*v1alpha1.ForeignCluster))
	_, err = s.store.update(k, found, "")
	return err == nil
}

func (s *side) unpeer(t *testing.T, name string) {
	t.Helper()
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if err := s.store.delete(key{foreignClusters, "", name}, nil); err != nil {
		t.Fatal(err)
	}
}

// start runs the processes of both clusters until the test ends.
func (w *world) start(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	for _, s := range []*side{w.rome, w.milan} {
		running.Go(func() { s.run(ctx) })
	}
	t.Cleanup(func() {
		stop()
		running.Wait()
		if t.Failed() {
			w.dump(t)
		}
	})
}

func (w *world) until(t *testing.T, what string, check func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return check(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// peered returns a function that reports whether both clusters have a status in which consumer has
// an outgoing peering with provider.
func peered(consumer, provider *side) func() bool {
	return func() bool {
		local, remote := consumer.foreignCluster(provider.name), provider.foreignCluster(consumer.name)
		return local != nil && remote != nil &&
			meta.IsStatusConditionTrue(local.Status.Conditions, v1alpha1.ConditionReady) &&
			local.Status.OutgoingPeering == v1alpha1.PeeringEstablished &&
			remote.Status.IncomingPeering == v1alpha1.PeeringEstablished
	}
}

func (s *side) foreignCluster(name string) *v1alpha1.ForeignCluster {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	found, err := s.store.get(key{foreignClusters, "", name})
	if err != nil {
		return nil
	}
	return found.(*v1alpha1.ForeignCluster)
}

// left returns the keys of all objects in a cluster, except PeeringTokens, which belong to
// administrators.
func (s *side) left() []string {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	var left []string
	for _, k := range s.store.keys(func(k key) bool { return k.resource != peeringTokens }) {
		left = append(left, k.String())
	}
	return left
}

// returns waits until a cluster has exactly the objects whose keys are in before.
func (w *world) returns(t *testing.T, s *side, before []string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("%s has left (-before +now):\n%s", s.name, cmp.Diff(before, s.left()))
		}
	}()
	w.until(t, s.name+" is as it was before", func() bool { return cmp.Equal(before, s.left()) })
}

// peersAndUnpeers peers and unpeers two clusters, with a fault in the process of the cluster
// faulty. It returns the number of writes by cluster.
func peersAndUnpeers(t *testing.T, mode identity.Mode, faulty string, f fault) map[string]int {
	w := newWorld(t, mode)
	if s, ok := w.servers["https://"+faulty+".example.com:6443"]; ok {
		s.fault = f
	}
	before := map[*side][]string{w.rome: w.rome.left(), w.milan: w.milan.left()}
	w.invite(t, w.milan, w.rome, "a")
	w.start(t)
	w.until(t, "rome is peered with milan", peered(w.rome, w.milan))
	w.rome.unpeer(t, "milan")
	for _, s := range []*side{w.rome, w.milan} {
		w.returns(t, s, before[s])
	}
	return map[string]int{"rome": int(w.rome.writes.Load()), "milan": int(w.milan.writes.Load())}
}

// crowd is the number of tests that run in parallel. They wait most of the time.
const crowd = "16"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", crowd); err != nil {
		panic(err)
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// every is the interval of the writes at which processes are killed. It is 1 with SAGA=all, which
// takes minutes.
func every() int {
	if os.Getenv("SAGA") == "all" {
		return 1
	}
	return 11
}

func TestPeeringConvergesWhereverItsProcessesAreKilled(t *testing.T) {
	for _, mode := range []identity.Mode{identity.ModeCertificate, identity.ModeToken} {
		writes := peersAndUnpeers(t, mode, "", fault{})
		t.Logf("with identities by %s: %v writes", mode, writes)
		for _, name := range slices.Sorted(maps.Keys(writes)) {
			for number := 1; number <= writes[name]; number += every() {
				for _, lost := range []bool{false, true} {
					f := fault{number, lost}
					t.Run(fmt.Sprintf("%s/%s dies %s", mode, name, f), func(t *testing.T) {
						t.Parallel()
						peersAndUnpeers(t, mode, name, f)
					})
				}
			}
		}
	}
}

func TestDirectionsOfAPeeringAreIndependent(t *testing.T) {
	w := newWorld(t, identity.ModeCertificate)
	before := map[*side][]string{w.rome: w.rome.left(), w.milan: w.milan.left()}
	w.invite(t, w.milan, w.rome, "a")
	w.start(t)
	w.until(t, "rome is peered with milan", peered(w.rome, w.milan))
	w.invite(t, w.rome, w.milan, "b", w.milan.id)
	w.until(t, "milan is peered with rome", peered(w.milan, w.rome))
	if !peered(w.rome, w.milan)() {
		t.Error("the second direction disturbed the first")
	}
	for s, other := range map[*side]string{w.rome: "milan", w.milan: "rome"} {
		s.store.mu.Lock()
		if clusters := s.store.keys(func(k key) bool { return k.resource == foreignClusters }); len(clusters) != 1 {
			t.Errorf("%s has %v", s.name, clusters)
		}
		for _, namespace := range []string{naming.TenantNamespace(other), naming.PeerNamespace(other)} {
			if _, ok := s.store.objects[key{namespaces, "", namespace}]; !ok {
				t.Errorf("%s has no namespace %s", s.name, namespace)
			}
		}
		binding := s.store.objects[key{roleBindings, naming.TenantNamespace(other),
			"federation-tenant"}].(*rbacv1.RoleBinding)
		if err := authorize(s.store, user(binding.Subjects[0].Name), "list",
			key{resource: secrets, namespace: naming.PeerNamespace(other)}, ""); err == nil {
			t.Errorf("%s sees the peer namespace of %s", other, s.name)
		}
		s.store.mu.Unlock()
	}
	w.rome.change("milan", func(fc *v1alpha1.ForeignCluster) { fc.Spec.Outgoing = v1alpha1.PeeringDisabled })
	w.until(t, "rome is unpeered from milan", func() bool {
		local, remote := w.rome.foreignCluster("milan"), w.milan.foreignCluster("rome")
		return local.Status.OutgoingPeering == v1alpha1.PeeringNone && remote.Status.IncomingPeering == v1alpha1.PeeringNone
	})
	w.until(t, "milan is still peered with rome", peered(w.milan, w.rome))
	w.invite(t, w.milan, w.rome, "c", w.rome.id)
	w.until(t, "rome is peered with milan again", peered(w.rome, w.milan))
	w.milan.unpeer(t, "rome")
	w.until(t, "milan deletes rome", func() bool { return w.milan.foreignCluster("rome") == nil })
	w.rome.unpeer(t, "milan")
	for _, s := range []*side{w.rome, w.milan} {
		w.returns(t, s, before[s])
	}
}

func TestProviderEndsAPeeringAndTheConsumerReportsIt(t *testing.T) {
	w := newWorld(t, identity.ModeCertificate)
	w.invite(t, w.milan, w.rome, "a")
	w.start(t)
	w.until(t, "rome is peered with milan", peered(w.rome, w.milan))
	w.milan.change("rome", func(fc *v1alpha1.ForeignCluster) { fc.Spec.Incoming = v1alpha1.PeeringDisabled })
	w.until(t, "milan has ended it", func() bool {
		return w.milan.foreignCluster("rome").Status.IncomingPeering == v1alpha1.PeeringNone
	})
	w.until(t, "rome reports it", func() bool {
		return w.rome.foreignCluster("milan").Status.OutgoingPeering == v1alpha1.PeeringDenied
	})
	w.rome.store.mu.Lock()
	if _, ok := w.rome.store.objects[key{nodes, "", "liqo-milan"}]; ok {
		t.Error("the virtual node still exists")
	}
	w.rome.store.mu.Unlock()
	w.rome.unpeer(t, "milan")
	w.until(t, "rome deletes milan", func() bool { return w.rome.foreignCluster("milan") == nil })
}

func TestUnpeeringAnUnreachableClusterEndsByItsDeadline(t *testing.T) {
	for _, leaving := range []string{"rome", "milan"} {
		t.Run(leaving, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, identity.ModeCertificate)
			before := map[*side][]string{w.rome: w.rome.left(), w.milan: w.milan.left()}
			w.invite(t, w.milan, w.rome, "a")
			w.start(t)
			w.until(t, "rome is peered with milan", peered(w.rome, w.milan))
			w.cut.Store(true)
			s, other := w.rome, "milan"
			if leaving == "milan" {
				s, other = w.milan, "rome"
			}
			s.change(other, func(fc *v1alpha1.ForeignCluster) { fc.Spec.DisconnectTimeoutSeconds = ptr.To[int32](3) })
			s.unpeer(t, other)
			w.returns(t, s, before[s])
		})
	}
}

func TestConcurrentInvitationsOfOneClusterAreAcceptedOnce(t *testing.T) {
	w := newWorld(t, identity.ModeCertificate)
	for _, token := range []string{"a", "b", "c"} {
		id := uid(token)
		w.milan.add(t, key{peeringTokens, "", "token-" + token},
			&v1alpha1.PeeringToken{ObjectMeta: metav1.ObjectMeta{UID: id}})
		// The names differ, so that the requests do not conflict by the name of the ForeignCluster.
		w.milan.add(t, key{identityRequests, "", naming.InvitationAccount(id)}, &v1alpha1.IdentityRequest{
			Spec: v1alpha1.IdentityRequestSpec{ClusterID: w.rome.id, ClusterName: "rome-" + token, Request: []byte("x")},
		})
	}
	w.start(t)
	answered := func() (accepted, refused int) {
		w.milan.store.mu.Lock()
		defer w.milan.store.mu.Unlock()
		for _, k := range w.milan.store.keys(func(k key) bool { return k.resource == identityRequests }) {
			condition := meta.FindStatusCondition(w.milan.store.objects[k].(*v1alpha1.IdentityRequest).Status.Conditions,
				v1alpha1.ConditionAccepted)
			switch {
			case condition == nil:
			case condition.Status == metav1.ConditionTrue:
				accepted++
			default:
				refused++
			}
		}
		return accepted, refused
	}
	w.until(t, "all are answered", func() bool { accepted, refused := answered(); return accepted+refused == 3 })
	if accepted, refused := answered(); accepted != 1 || refused != 2 {
		t.Errorf("%d are accepted, %d refused", accepted, refused)
	}
	w.milan.store.mu.Lock()
	defer w.milan.store.mu.Unlock()
	if clusters := w.milan.store.keys(func(k key) bool { return k.resource == foreignClusters }); len(clusters) != 1 {
		t.Errorf("one cluster has the ForeignClusters %v", clusters)
	}
}

func TestDeletedIdentityRequestRevokesItsRoleBindings(t *testing.T) {
	w := newWorld(t, identity.ModeCertificate)
	w.invite(t, w.milan, w.rome, "a")
	w.start(t)
	w.until(t, "rome is peered with milan", peered(w.rome, w.milan))
	w.milan.store.mu.Lock()
	err := w.milan.store.delete(key{identityRequests, "", naming.InvitationAccount(uid("a"))}, nil)
	w.milan.store.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	w.until(t, "the tenant namespace has no role binding", func() bool {
		w.milan.store.mu.Lock()
		defer w.milan.store.mu.Unlock()
		_, ok := w.milan.store.objects[key{roleBindings, "liqo-tenant-rome", "federation-tenant"}]
		return !ok
	})
}

var identityRequests = v1alpha1.SchemeGroupVersion.WithResource("identityrequests")
