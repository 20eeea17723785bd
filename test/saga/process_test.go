// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package saga

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/consumer/heartbeat"
	consumer "liqo.io/federation/controllers/consumer/peering"
	"liqo.io/federation/controllers/consumer/request"
	"liqo.io/federation/controllers/consumer/virtualnode"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/watches"
	"liqo.io/federation/controllers/link/foreigncluster"
	"liqo.io/federation/controllers/link/replication"
	"liqo.io/federation/controllers/provider/admission"
	"liqo.io/federation/controllers/provider/identitysigner"
	"liqo.io/federation/controllers/provider/invitation"
	"liqo.io/federation/controllers/provider/liveness"
	"liqo.io/federation/controllers/provider/offer"
	provider "liqo.io/federation/controllers/provider/peering"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/generated/clientset/versioned"
	federationfake "liqo.io/federation/generated/clientset/versioned/fake"
	federationscheme "liqo.io/federation/generated/clientset/versioned/scheme"
	"liqo.io/federation/test/fakes"
)

var errGone = errors.New("connection reset by peer")

// fault selects the write at which a process is killed. If lost is false, the write is not
// performed; otherwise it is performed, and its response is lost.
type fault struct {
	write int
	lost  bool
}

func (f fault) String() string {
	if f.lost {
		return fmt.Sprintf("after write %d", f.write)
	}
	return fmt.Sprintf("before write %d", f.write)
}

// side is one of the two clusters. The process of its controllers is restarted whenever it is
// killed.
type side struct {
	name, id string
	store    *store
	mode     identity.Mode
	world    *world

	// server is the URL at which the cluster's own controllers reach its API.
	server string

	// life ends the running process: end kills it, and ended is closed when it has ended. No new
	// process starts while the lock is held.
	life struct {
		sync.Mutex
		end   context.CancelFunc
		ended chan struct{}
	}
	deaths atomic.Int64
	journal
}

// process is one run of a cluster's controllers. It ends when it is killed.
type process struct {
	side *side
	ctx  context.Context
	die  context.CancelFunc
	// started is closed when the manager runs. A manager that is stopped before that never returns.
	started chan struct{}
}

// user is the name of the user of a request. Empty means an administrator of the cluster.
type user string

const (
	invitationNamespace = "liqo-invitations"
	installation        = "liqo"
	bearerPrefix        = "system:serviceaccount:" + invitationNamespace + ":"
)

// run runs the process of the controllers, and restarts it when it ends, until the context ends.
func (s *side) run(ctx context.Context) {
	for ctx.Err() == nil {
		life, die := context.WithCancel(context.WithoutCancel(ctx))
		p := &process{side: s, ctx: life, die: die, started: make(chan struct{})}
		end := func() {
			<-p.started
			die()
		}
		stop := context.AfterFunc(ctx, end)
		ended := make(chan struct{})
		s.life.Lock()
		s.life.end, s.life.ended = end, ended
		s.life.Unlock()
		p.live()
		die()
		stop()
		close(ended)
		if ctx.Err() == nil {
			s.deaths.Add(1)
		}
	}
}

// clients returns clients of a process for a cluster, with which requests are sent as a user.
func (p *process) clients(at *store, as user) (kubernetes.Interface, versioned.Interface) {
	kube, federation := &kubefake.Clientset{}, &federationfake.Clientset{}
	for fake, scheme := range map[*clienttesting.Fake]*runtime.Scheme{&kube.Fake: kubescheme.Scheme,
		&federation.Fake: federationscheme.Scheme} {
		fake.AddReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			result, err := p.ask(at, as, scheme, action)
			return true, result, err
		})
		fake.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
			if p.ctx.Err() != nil {
				return true, nil, errGone
			}
			options := action.(clienttesting.WatchActionImpl)
			in := key{resource: action.GetResource(), namespace: action.GetNamespace()}
			at.mu.Lock()
			defer at.mu.Unlock()
			if err := authorize(at, as, action.GetVerb(), in, ""); err != nil {
				return true, nil, err
			}
			return true, at.watch(in, options.ListOptions.ResourceVersion, selectorOf(options.WatchRestrictions.Labels)), nil
		})
	}
	return kube, federation
}

func selectorOf(selector labels.Selector) labels.Selector {
	if selector == nil {
		return labels.Everything()
	}
	return selector
}

// ask performs a request of a process. It returns errGone if the process is killed at this request.
func (p *process) ask(at *store, as user, scheme *runtime.Scheme, action clienttesting.Action) (runtime.Object, error) {
	at.mu.Lock()
	defer at.mu.Unlock()
	if p.ctx.Err() != nil || p.side.world.cut.Load() && at != p.side.store {
		return nil, errGone
	}
	if verb := action.GetVerb(); verb == "get" || verb == "list" {
		return answer(at, as, scheme, action)
	}
	var result runtime.Object
	var err error
	if gone := p.side.write(p.die, describe(action), func() string {
		result, err = answer(at, as, scheme, action)
		return fmt.Sprint(err)
	}); gone != nil {
		return nil, gone
	}
	return result, err
}

// RoundTrip sends a request to the API server of the same cluster. It returns errGone if the
// process is killed at this request.
func (p *process) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.ctx.Err() != nil {
		return nil, errGone
	}
	return p.side.roundTrip(p.die, r)
}

func describe(action clienttesting.Action) string {
	name := ""
	if named, ok := action.(interface{ GetName() string }); ok {
		name = named.GetName()
	}
	text := fmt.Sprintf("%s %s/%s %s/%s", action.GetVerb(), action.GetResource().Resource, action.GetSubresource(),
		action.GetNamespace(), name)
	if patch, ok := action.(clienttesting.PatchAction); ok {
		text += " " + string(patch.GetPatch())
	}
	return text
}

// answer performs a request of a fake client on a store, as an API server does.
func answer(at *store, as user, scheme *runtime.Scheme, action clienttesting.Action) (runtime.Object, error) {
	k := key{resource: action.GetResource(), namespace: action.GetNamespace()}
	if err := authorize(at, as, action.GetVerb(), k, action.GetSubresource()); err != nil {
		return nil, err
	}
	// A nil pointer in an interface is not equal to nil, so it is replaced.
	some := func(o object, err error) (runtime.Object, error) {
		if err != nil {
			return nil, err
		}
		return o, nil
	}
	switch a := action.(type) {
	case clienttesting.GetActionImpl:
		k.name = a.Name
		return some(at.get(k))
	case clienttesting.ListActionImpl:
		return at.list(scheme, a.Kind, k, selectorOf(a.ListRestrictions.Labels))
	case clienttesting.CreateActionImpl:
		wanted := a.Object.(object)
		k.name = wanted.GetName()
		switch {
		case a.Subresource == "token":
			return tokenOf(at, k, a.Name)
		case k.resource.Resource == "identityrequests":
			return some(createIdentity(at, as, k, wanted))
		}
		return some(at.create(k, wanted))
	case clienttesting.UpdateActionImpl:
		wanted := a.Object.(object)
		k.name = wanted.GetName()
		return some(at.update(k, wanted, a.Subresource))
	case clienttesting.PatchActionImpl:
		k.name = a.Name
		return some(at.patch(k, a.Patch, a.Subresource))
	case clienttesting.DeleteActionImpl:
		k.name = a.Name
		return nil, at.delete(k, a.DeleteOptions.Preconditions)
	}
	return nil, fmt.Errorf("no implementation of a %T", action)
}

// createIdentity creates an IdentityRequest as the registry does for the bearer of an invitation.
func createIdentity(at *store, as user, k key, wanted object) (object, error) {
	k.name = strings.TrimPrefix(string(as), bearerPrefix)
	created, err := at.create(k, wanted)
	if !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	found, err := at.get(k)
	if err == nil && !equality.Semantic.DeepEqual(found.(*v1alpha1.IdentityRequest).Spec,
		wanted.(*v1alpha1.IdentityRequest).Spec) {
		return nil, apierrors.NewConflict(k.resource.GroupResource(), k.name,
			errors.New("this invitation was used for another request"))
	}
	return found, err
}

// tokenOf returns a token of a ServiceAccount. It fails if the ServiceAccount does not exist.
func tokenOf(at *store, k key, account string) (runtime.Object, error) {
	k.resource.Resource = "serviceaccounts"
	k.name = account
	if _, err := at.get(k); err != nil {
		return nil, err
	}
	return &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
		Token: tokenFor("system:serviceaccount:"+k.namespace+":"+account, 24*time.Hour),
	}}, nil
}

func tokenFor(subject string, life time.Duration) string {
	claims := fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, subject, time.Now().Unix(), time.Now().Add(life).Unix())
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// authorize returns an error unless a user of another cluster may send a request, as RBAC does.
func authorize(at *store, as user, verb string, k key, subresource string) error {
	if as == "" {
		return nil
	}
	namespace, name, isAccount := accountOf(as)
	if isAccount {
		if _, ok := at.objects[key{accounts, namespace, name}]; !ok {
			return apierrors.NewUnauthorized("the account does not exist")
		}
	}
	if strings.HasPrefix(string(as), bearerPrefix) && k.resource.Resource == "identityrequests" {
		return nil
	}
	role := "federation-tenant"
	if subresource == "token" {
		role = "federation-tenant-token"
	}
	binding, ok := at.objects[key{roleBindings, k.namespace, role}]
	if ok && k.namespace != "" && slices.ContainsFunc(binding.(*rbacv1.RoleBinding).Subjects, func(s rbacv1.Subject) bool {
		return (s.Kind == rbacv1.UserKind && s.Name == string(as)) ||
			(isAccount && s.Kind == rbacv1.ServiceAccountKind && s.Name == name && s.Namespace == namespace)
	}) {
		return nil
	}
	return apierrors.NewForbidden(k.resource.GroupResource(), k.name, fmt.Errorf("%s may not %s it", as, verb))
}

func accountOf(as user) (namespace, name string, ok bool) {
	parts := strings.Split(string(as), ":")
	if len(parts) != 4 || parts[1] != "serviceaccount" {
		return "", "", false
	}
	return parts[2], parts[3], true
}

// connect returns clients of another cluster with an identity. It fails while the clusters are
// partitioned.
func (p *process) connect(identity *remote.Identity) (*remote.Clients, error) {
	other, ok := p.side.world.servers[identity.Server]
	if !ok {
		return nil, fmt.Errorf("no server at %s", identity.Server)
	}
	var as user
	if identity.Token != "" {
		claims, err := remote.ReadClaims(identity.Token)
		if err != nil {
			return nil, err
		}
		as = user(claims.Subject)
	} else {
		block, _ := pem.Decode(identity.Certificate)
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		as = user(certificate.Subject.CommonName)
	}
	kube, federation := p.clients(other.store, as)
	return &remote.Clients{Kube: kube, Federation: federation}, nil
}

// live runs all controllers of peerings until the process is killed.
func (p *process) live() {
	s := p.side
	kube, _ := p.clients(s.store, "")
	peers := remote.NewPeersWith(p.connect)

	manager, err := kit.NewManager(&rest.Config{Host: s.server, Transport: p, QPS: -1}, logr.Discard())
	if err != nil {
		panic(err)
	}
	cached, live := manager.GetClient(), manager.GetAPIReader()
	invitations, err := consumer.InvitationCache(manager, invitationNamespace)
	if err != nil {
		panic(err)
	}
	account := types.NamespacedName{Namespace: installation, Name: "federation-controller-manager"}
	outgoing := &consumer.Config{
		Client: cached, Live: live, Invitations: invitations, Events: &record.FakeRecorder{}, Peers: peers,
		Volumes: fakes.NoVolumes{}, ClusterID: s.id, ClusterName: s.name, IdentityLifetime: identity.DefaultLifetime,
		InvitationNamespace: invitationNamespace, Account: account,
	}
	incoming := &provider.Config{
		Client: cached, Live: live, Events: &record.FakeRecorder{}, Mode: s.mode, Account: account,
		InvitationNamespace: invitationNamespace,
	}
	for _, reconciler := range []interface{ SetupWithManager(ctrl.Manager) error }{
		&foreigncluster.Reconciler{
			Client: cached, Invitations: invitations, Events: &record.FakeRecorder{}, Clock: clock.RealClock{}, Peers: peers,
			Incoming: incoming.Steps(), Outgoing: outgoing.Steps(),
		},
		&heartbeat.Reconciler{Peers: peers, Clock: clock.RealClock{}},
		&liveness.Reconciler{Client: cached, Live: live, Events: &record.FakeRecorder{}, Clock: clock.RealClock{}},
		&admission.Reconciler{Client: cached, Live: live, ClusterID: s.id, Mode: s.mode},
		&invitation.Reconciler{Client: cached, Live: live, Clock: clock.RealClock{}, Namespace: invitationNamespace},
		&virtualnode.Reconciler{
			Client: cached, Live: live, Pods: watches.PodsOfNodes(kube), Clock: clock.RealClock{},
			ClusterID: s.id, ClusterName: s.name, Namespace: installation,
			VirtualKubelet: virtualnode.VirtualKubelet{Image: "federation-virtual-kubelet", PullPolicy: "Never"},
		},
		&replication.Replicator{Client: cached, Peers: peers, ClusterName: s.name},
		&request.Reconciler{Client: cached, ClusterName: s.name, AutoAccept: true},
		&offer.Reconciler{Client: cached, ClusterID: s.id, ClusterName: s.name, Policy: offer.DefaultPolicy()},
		&identitysigner.Reconciler{Client: cached, Live: live, Clock: clock.RealClock{}, Lifetime: identity.DefaultLifetime},
	} {
		if err := reconciler.SetupWithManager(manager); err != nil {
			panic(err)
		}
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := manager.Start(p.ctx); err != nil {
			s.note("the manager ended: %v", err)
		}
	})
	<-manager.Elected()
	close(p.started)
	running.Wait()
}

// dump logs the objects and the writes of both clusters, if the test has failed.
func (w *world) dump(t *testing.T) {
	t.Helper()
	for _, s := range []*side{w.rome, w.milan} {
		s.store.mu.Lock()
		for _, k := range s.store.keys(func(k key) bool {
			return k.resource.Group == v1alpha1.GroupName || naming.ForeignClusterOf(k.namespace) != ""
		}) {
			fields := content(s.store.objects[k])
			t.Logf("%s has %s: %v %v", s.name, k, fields["metadata"].(map[string]any)["deletionTimestamp"], fields["status"])
		}
		s.store.mu.Unlock()
		s.log.Lock()
		t.Logf("%s wrote:\n%s", s.name, strings.Join(s.log.lines, "\n"))
		s.log.Unlock()
	}
}
