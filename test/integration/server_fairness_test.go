// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

// peersLevels has the UIDs of the priority levels for the lists and for all other requests of
// peers.
type peersLevels struct{ lists, others string }

// installFairness applies the FlowSchemas and PriorityLevelConfigurations of the chart.
func installFairness(t *testing.T, env *framework.Environment) peersLevels {
	t.Helper()
	env.Kubectl(t, env.Chart(t, "fairness.yaml"), "apply", "-f", "-")
	uid := func(name string) string {
		level, err := env.Kube.FlowcontrolV1().PriorityLevelConfigurations().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(level.UID)
	}
	return peersLevels{lists: uid("federation-peers-lists"), others: uid("federation-peers")}
}

// awaitLevel waits until a user's requests of a path are in the priority level with this UID.
func awaitLevel(t *testing.T, user string, config *rest.Config, path, want string) {
	t.Helper()
	retry(t, func() (any, error) {
		got, err := levelOf(t.Context(), config, path)
		if err == nil && got != want {
			err = fmt.Errorf("%s requests %s in level %q, want %q", user, path, got, want)
		}
		return nil, err
	})
}

// levelOf returns the UID of the priority level in the response to a request.
func levelOf(ctx context.Context, config *rest.Config, path string) (string, error) {
	response, err := get(ctx, config, path)
	if err != nil {
		return "", err
	}
	return response.Header.Get("X-Kubernetes-Pf-Prioritylevel-Uid"), nil
}

// get sends a GET that accepts these media types, and reads the response to its end.
func get(ctx context.Context, config *rest.Config, path string, accept ...string) (*http.Response, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, nil)
	if err != nil {
		return nil, err
	}
	for _, mediaType := range accept {
		request.Header.Add("Accept", mediaType)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response, err
}

func TestPeersShareAPartOfBothServers(t *testing.T) {
	env := framework.Get(t)
	levels := installFairness(t, env)
	peer := env.User(t, "fair-peer", v1alpha1.PeerGroup)
	bearer := env.ServiceAccount(t, framework.InvitationNamespace, "fair-bearer")
	// A consumer without a certificate authenticates as a ServiceAccount of its tenant namespace.
	tenant := makeNamespaceOf(t, env, tenantOf("fairtown"), v1alpha1.RoleTenant, "fairtown")
	account := env.ServiceAccount(t, tenant, "federation-peer")
	env.StartControllers(t, "fair-manager", "federation-controller-manager", "--controllers=peer-fairness")
	binding := bindingOf("federation-tenant",
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: tenant, Name: "federation-peer"})
	binding.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	must(t)(env.Kube.RbacV1().RoleBindings(tenant).Create(t.Context(), binding, metav1.CreateOptions{}))
	other := env.User(t, "fair-other")
	for hop, to := range map[string]func(*rest.Config) *rest.Config{
		// kube-apiserver applies its own priority levels before it forwards a request to the
		// aggregated API.
		"kube-apiserver": func(config *rest.Config) *rest.Config { return config },
		"our API server": env.Server.Client,
	} {
		one, list := "/version", groupPath+"/shadowpods"
		for user, config := range map[string]*rest.Config{"a peer": peer, "a peer that is an account": account,
			"the bearer of an invitation": bearer} {
			user += " at " + hop
			awaitLevel(t, user, to(config), one, levels.others)
			awaitLevel(t, user, to(config), list, levels.lists)
		}
		for _, path := range []string{one, list} {
			if got, err := levelOf(t.Context(), to(other), path); err != nil || got == levels.others || got == levels.lists {
				t.Errorf("a user at %s requests %s in a level of peers (%v)", hop, path, err)
			}
		}
	}
	if err := env.Kube.RbacV1().RoleBindings(tenant).Delete(t.Context(), binding.Name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the account of a deleted consumer to be removed", func(ctx context.Context) (bool, error) {
		schemas, err := env.Kube.FlowcontrolV1().FlowSchemas().List(ctx, metav1.ListOptions{})
		return err == nil &&
			!slices.ContainsFunc(schemas.Items,
				func(schema flowcontrolv1.FlowSchema) bool { return namesAccountOf(&schema, tenant) }), err
	})
}

// namesAccountOf reports whether a FlowSchema is for a ServiceAccount of this namespace. Earlier
// tests may have left other FlowSchemas.
func namesAccountOf(schema *flowcontrolv1.FlowSchema, namespace string) bool {
	return slices.ContainsFunc(schema.Spec.Rules, func(rule flowcontrolv1.PolicyRulesWithSubjects) bool {
		return slices.ContainsFunc(rule.Subjects, func(subject flowcontrolv1.Subject) bool {
			return subject.ServiceAccount != nil && subject.ServiceAccount.Namespace == namespace
		})
	})
}

func TestNoisyPeerDoesNotStarveOthers(t *testing.T) {
	env := framework.Get(t)
	levels := installFairness(t, env)
	server := env.StartServer(t, env.MakeDataDir(t), "--max-requests-inflight=20", "--max-mutating-requests-inflight=10")
	client, err := versioned.NewForConfig(server.Client(env.Admin))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if _, err := client.FederationV1alpha1().PeeringTokens().Create(t.Context(), newToken(fmt.Sprintf("noise-%d", i)),
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const list, one = groupPath + "/peeringtokens", groupPath + "/peeringtokens/noise-7"
	users := map[string]*rest.Config{
		"the noisy peer": env.User(t, "noisy-peer", v1alpha1.PeerGroup),
		"a quiet peer":   env.User(t, "quiet-peer", v1alpha1.PeerGroup),
		"an operator":    env.User(t, "quiet-operator"),
	}
	for user, config := range users {
		users[user] = server.Client(config)
	}
	for _, user := range []string{"noisy-peer", "quiet-peer", "quiet-operator"} {
		env.Grant(t, user, "", rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName},
			Resources: []string{"peeringtokens"}, Verbs: []string{"get", "list"}})
	}
	awaitLevel(t, "the noisy peer", users["the noisy peer"], list, levels.lists)

	// The noisy peer sends expensive requests without a pause.
	ctx, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	var mu sync.Mutex
	var noisy []time.Duration
	for range 100 {
		flood.Go(func() {
			for ctx.Err() == nil {
				started := time.Now()
				response, err := get(ctx, users["the noisy peer"], list)
				if err != nil || response.StatusCode != http.StatusOK {
					continue
				}
				mu.Lock()
				noisy = append(noisy, time.Since(started))
				mu.Unlock()
			}
		})
	}
	defer flood.Wait()
	defer stop()
	enough := func(n int) {
		t.Helper()
		retryFor(t, time.Minute, func() (any, error) {
			mu.Lock()
			defer mu.Unlock()
			if len(noisy) < n {
				return nil, fmt.Errorf("the noisy peer received %d answers", len(noisy))
			}
			return nil, nil
		})
	}
	enough(100)
	calm := map[string][]time.Duration{}
	for range 40 {
		for _, user := range []string{"an operator", "a quiet peer"} {
			started := time.Now()
			response, err := get(t.Context(), users[user], one)
			if err != nil || response.StatusCode != http.StatusOK {
				t.Fatalf("%s: got %v, %v", user, response, err)
			}
			calm[user] = append(calm[user], time.Since(started))
		}
	}
	enough(200)
	stop()
	flood.Wait()

	slices.Sort(noisy)
	slow := noisy[len(noisy)/2]
	for user, times := range calm {
		slices.Sort(times)
		usual := times[len(times)/2]
		t.Logf("%s waits %s, the noisy peer %s (medians of %d and %d)", user, usual, slow, len(times), len(noisy))
		if usual > slow {
			t.Errorf("%s waits longer than the noisy peer", user)
		}
	}
}
