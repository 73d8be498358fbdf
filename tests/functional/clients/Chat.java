// The JDK's HttpClient with its defaults: it offers an upgrade to HTTP/2.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;

public class Chat {
    static final HttpClient CLIENT = HttpClient.newHttpClient();

    static HttpResponse<String> ask(String method, String url, String type, BodyPublisher body)
            throws Exception {
        var request = HttpRequest.newBuilder(URI.create(url)).method(method, body);
        if (type != null) {
            request.header("Content-Type", type);
        }
        return CLIENT.send(request.build(), BodyHandlers.ofString());
    }

    public static void main(String[] arguments) throws Exception {
        String url = arguments[0], session = arguments[1], json = "application/json";
        String chat = url + "/chat/" + session;
        var none = BodyPublishers.noBody();
        var first = BodyPublishers.ofString("{\"message\": \"first\"}");
        System.out.println("length " + ask("POST", chat, json, first).statusCode());
        var second = BodyPublishers.ofString("{\"message\": \"second\"}");
        var unknown = BodyPublishers.fromPublisher(second);
        System.out.println("chunks " + ask("POST", chat, json, unknown).statusCode());
        var third = BodyPublishers.ofString("{\"message\": \"third\"}");
        var events = ask("POST", chat + "/stream", json, third).body();
        System.out.println("stream " + (events.split("event: done\n", -1).length - 1));
        var wrong = BodyPublishers.ofString("{\"message\": \"fourth\"}");
        System.out.println("wrong " + ask("POST", chat, "text/plain", wrong).statusCode());
        System.out.println("empty " + ask("POST", chat + "/cancel", null, none).statusCode());
        var messages = ask("GET", url + "/sessions/" + session + "/messages", null, none);
        System.out.println("messages " + messages.statusCode());
    }
}
