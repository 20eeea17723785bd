// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/clientset/versioned/scheme"
	federation "liqo.io/federation/generated/clientset/versioned/typed/federation/v1alpha1"
	"liqo.io/federation/registry/federation/subresource/subresourcetest"
	"liqo.io/federation/test/integration/framework"
)

// certified returns a certificate for the key of a certificate request. It is valid for a day from
// began.
func certified(t *testing.T, request []byte, began time.Time) []byte {
	t.Helper()
	block, _ := pem.Decode(request)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: parsed.Subject, NotBefore: began, NotAfter: began.Add(24 * time.Hour),
	}, &x509.Certificate{Subject: pkix.Name{CommonName: "cluster"}}, parsed.PublicKey, authority)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// renewerOf returns a user with the permissions of a consumer in a namespace, which has a
// ResourceRequest.
func renewerOf(t *testing.T, env *framework.Environment, name, namespace string) renewer {
	t.Helper()
	subject := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
	return renewerBy(t, env, subject, env.User(t, name, v1alpha1.PeerGroup), namespace)
}

// renewerBy is renewerOf for any subject, with the client configuration of this subject.
func renewerBy(t *testing.T, env *framework.Environment, subject rbacv1.Subject, config *rest.Config,
	namespace string) renewer {
	t.Helper()
	_, err := env.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "tenant-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "federation-tenant"},
		Subjects:   []rbacv1.Subject{subject},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := versioned.NewForConfigOrDie(config).FederationV1alpha1()
	client := all.ResourceRequests(namespace)
	until(t, "the consumer to have a request in "+namespace, func(ctx context.Context) (bool, error) {
		if _, err := client.Get(ctx, "genoa", metav1.GetOptions{}); err == nil {
			return true, nil
		}
		_, err := client.Create(ctx, &v1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Name: "genoa"}},
			metav1.CreateOptions{})
		return err == nil, nil
	})
	return renewer{all, namespace}
}

// renewer is a client that renews its identity in a namespace.
type renewer struct {
	client    federation.FederationV1alpha1Interface
	namespace string
}

// renew requests the renewal of an identity. It does not retry responses with Retry-After.
func (r renewer) renew(t *testing.T, request *v1alpha1.IdentityRequest,
	dryRun ...string) (*v1alpha1.IdentityRequest, error) {
	answer := &v1alpha1.IdentityRequest{}
	err := r.client.RESTClient().Post().Namespace(r.namespace).Resource("resourcerequests").Name("genoa").SubResource(
		"identity").
		VersionedParams(&metav1.CreateOptions{DryRun: dryRun},
			scheme.ParameterCodec).Body(request).MaxRetries(0).Do(t.Context()).Into(answer)
	return answer, err
}

func TestAConsumerRenewsItsIdentityInItsTenantNamespaceAlone(t *testing.T) {
	env := framework.Get(t)
	env.Kubectl(t, env.Chart(t, "rbac-user-roles.yaml"), "apply", "-f", "-")
	env.Kubectl(t, env.Chart(t, "rbac-tenant.yaml"), "apply", "-f", "-")
	bearer, token := bearerOf(t, env, "renewal")
	uid, name := string(token.UID), "invitation-"+string(token.UID)
	first := identityFor(t, uid, v1alpha1.PeerGroup)
	until(t, "the bearer to request an identity", func(ctx context.Context) (bool, error) {
		_, err := bearer.Create(ctx, first, metav1.CreateOptions{})
		return err == nil, nil
	})
	admins := versioned.NewForConfigOrDie(env.Admin).FederationV1alpha1().IdentityRequests()
	answer := func(status fields) {
		t.Helper()
		if _, err := admins.Patch(t.Context(), name, types.MergePatchType, encode(fields{"status": status}),
			metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	own, other := env.MakeNamespace(t), env.MakeNamespace(t)
	answer(fields{"tenantNamespace": own})
	consumer := renewerOf(t, env, uid, own)
	renew := func(r renewer, request *v1alpha1.IdentityRequest, dryRun ...string) (*v1alpha1.IdentityRequest, error) {
		return r.renew(t, request, dryRun...)
	}

	second := identityFor(t, uid, v1alpha1.PeerGroup)
	_, err := renew(consumer, second)
	subresourcetest.ExpectStatus(t, err, http.StatusTooManyRequests, "is being issued")
	answer(fields{"certificate": certified(t, first.Spec.Request, time.Now())})
	_, err = renew(consumer, second)
	subresourcetest.ExpectStatus(t, err, http.StatusTooManyRequests, "renewed recently")
	answer(fields{"certificate": certified(t, first.Spec.Request, time.Now().Add(-16*time.Hour))})
	_, err = renew(consumer, identityFor(t, genoaID, v1alpha1.PeerGroup))
	expectCause(t, err, "spec.request")
	_, err = renew(consumer, identityFor(t, uid, v1alpha1.PeerGroup, "system:masters"))
	expectCause(t, err, "spec.request")
	if planned, err := renew(consumer, second, metav1.DryRunAll); err != nil ||
		string(planned.Spec.Request) != string(second.Spec.Request) {
		t.Errorf("a dry run is answered with %v, %v", planned, err)
	}

	_, err = renew(renewerOf(t, env, genoaID, own), second)
	subresourcetest.ExpectStatus(t, err, http.StatusForbidden, "only the consumer")
	_, err = renew(renewerOf(t, env, uid, other), second)
	subresourcetest.ExpectStatus(t, err, http.StatusForbidden, "only the consumer")
	_, err = renew(renewer{versioned.NewForConfigOrDie(env.Admin).FederationV1alpha1(), own}, second)
	subresourcetest.ExpectStatus(t, err, http.StatusForbidden, "only the consumer")
	if stored, err := admins.Get(t.Context(), name, metav1.GetOptions{}); err != nil ||
		string(stored.Spec.Request) != string(first.Spec.Request) {
		t.Fatalf("a refused request, or a dry run, was stored: %v", err)
	}

	renewed, err := renew(consumer, second)
	if err != nil || string(renewed.Spec.Request) != string(second.Spec.Request) || renewed.Generation != 2 {
		t.Fatalf("the renewal is answered with %+v, %v", renewed, err)
	}
	again, err := renew(consumer, second)
	if err != nil || again.ResourceVersion != renewed.ResourceVersion {
		t.Errorf("the same request again is answered with %v, %v", again, err)
	}
	_, err = renew(consumer, identityFor(t, uid, v1alpha1.PeerGroup))
	subresourcetest.ExpectStatus(t, err, http.StatusTooManyRequests, "is being issued")
	if err := admins.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = renew(consumer, second)
	subresourcetest.ExpectStatus(t, err, http.StatusForbidden, "only the consumer")
}

func TestAccountRenewsItsOwnIdentityOnly(t *testing.T) {
	env := framework.Get(t)
	env.Kubectl(t, env.Chart(t, "rbac-user-roles.yaml", "rbac-tenant.yaml"), "apply", "-f", "-")
	admins := versioned.NewForConfigOrDie(env.Admin).FederationV1alpha1().IdentityRequests()
	own, other := env.MakeNamespace(t), env.MakeNamespace(t)
	// Each of the namespaces is the tenant namespace of a consumer whose identity is a
	// ServiceAccount.
	uids := map[string]string{}
	for _, tenant := range []string{own, other} {
		bearer, token := bearerOf(t, env, "account-"+tenant)
		uid := string(token.UID)
		uids[tenant] = uid
		first := identityFor(t, uid, v1alpha1.PeerGroup)
		until(t, "the bearer to request an identity", func(ctx context.Context) (bool, error) {
			_, err := bearer.Create(ctx, first, metav1.CreateOptions{})
			return err == nil, nil
		})
		status := fields{"tenantNamespace": tenant, "serviceAccountName": "federation-peer", "conditions": []fields{{
			"type": v1alpha1.ConditionAccepted, "status": metav1.ConditionTrue, "reason": identity.ReasonKnownByAccount,
			"message": "", "observedGeneration": 1, "lastTransitionTime": metav1.Now(),
		}}}
		must(t)(admins.Patch(t.Context(), "invitation-"+uid, types.MergePatchType, encode(fields{"status": status}),
			metav1.PatchOptions{}, "status"))
	}
	accountOf := func(namespace, name, tenant string) renewer {
		subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
		return renewerBy(t, env, subject, env.ServiceAccount(t, namespace, name), tenant)
	}
	second := identityFor(t, uids[own], v1alpha1.PeerGroup)
	for name, refused := range map[string]struct {
		renewer renewer
		request *v1alpha1.IdentityRequest
	}{
		"another account of the namespace":    {accountOf(own, "another", own), second},
		"the account of another":              {accountOf(other, "federation-peer", own), second},
		"an account for another":              {accountOf(own, "federation-peer", own), identityFor(t, uids[other], v1alpha1.PeerGroup)},
		"an account without a name":           {accountOf(own, "federation-peer", own), identityFor(t, "", v1alpha1.PeerGroup)},
		"an account, for the path of another": {accountOf(own, "federation-peer", own), identityFor(t, "../"+uids[other], v1alpha1.PeerGroup)},
	} {
		if answer, err := refused.renewer.renew(t, refused.request); err == nil {
			t.Errorf("%s is answered with %+v", name, answer)
		}
	}
	consumer := accountOf(own, "federation-peer", own)
	_, err := consumer.renew(t, identityFor(t, uids[own], v1alpha1.PeerGroup, "system:masters"))
	expectCause(t, err, "spec.request")
	renewed, err := consumer.renew(t, second)
	if err != nil || string(renewed.Spec.Request) != string(second.Spec.Request) || renewed.Generation != 2 {
		t.Fatalf("the renewal is answered with %+v, %v", renewed, err)
	}
	// The previous request is not decided yet.
	_, err = consumer.renew(t, identityFor(t, uids[own], v1alpha1.PeerGroup))
	subresourcetest.ExpectStatus(t, err, http.StatusTooManyRequests, "is being issued")
}
