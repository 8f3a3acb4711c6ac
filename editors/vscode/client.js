// Starts `semi-naive lsp` and leaves the rest to it.
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = async () => {
  const settings = vscode.workspace.getConfiguration("semi-naive");
  const [command, ...args] = settings.get("command");
  const options = {
    documentSelector: [{ language: "semi-naive" }],
    initializationOptions: {
      includeDirs: settings.get("includeDirs"),
      macros: settings.get("macros"),
      legacy: settings.get("legacy"),
    },
  };
  client = new LanguageClient("semi-naive", "semi-naive", { command, args }, options);
  await client.start();
};

exports.deactivate = () => client?.stop();
